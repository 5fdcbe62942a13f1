"""Measure the gain from each idea in the merge loop, by changing one idea at a time.

    python -m benchmarks.stages.ablations

From `heap` to `memoryview` and on to `native`, several things change at once. Each variant here
changes one thing. The variants alternate, and each round runs in a new process. Only the merge loop
is timed, and times are kept only if all variants learn the same merges. The rows go to
measurements.json, from which `report/pages.py` creates the `ablations` table.
"""

from dataclasses import replace

import numpy as np

from benchmarks.corpora import CACHE, find_corpora
from benchmarks.report.measurements import record
from benchmarks.stages import training_rows

# variant -> trainer of the library or of merge_variants.py, and the change in this variant
VARIANTS = {
    "heap": ("heap", ""),
    "memoryview": ("memoryview", "flat arrays, linked occurrences instead of scanning words"),
    "native, nothing else": (
        "native, without prefetching, order and threshold",
        "cells and postings in C++; changes summed by neighbor",
    ),
    "native, threshold": (
        "native, without prefetching and order", "keeps frequent pairs only",
    ),
    "native, threshold, sorted words": (
        "native, without prefetching", "lays words out by count",
    ),
    "native": ("native, all parts", "prefetches occurrences"),
}  # fmt: skip

ROUNDS = 5
VOCAB_SIZE = 10_000
CORPUS_BYTES = 10_000_000
LONG_WORD = 200_000
"""Size of the text with one long word, in bytes."""

ON_LONG_WORD = ("memoryview", "native")
"""Variants that are measured on one long word. Python code would scan the word for each merge."""


def main():
    texts = [(c.name, c.path, VARIANTS) for c in find_corpora(CORPUS_BYTES)]
    for corpus, path, variants in [*texts, ("one word", one_long_word(), ON_LONG_WORD)]:
        rows = measure(list(variants), corpus, path, VOCAB_SIZE, ROUNDS)
        record(rows, "python -m benchmarks.stages.ablations")


def measure(variants, corpus, path, vocab_size, rounds):
    """Return the rows for a text.

    Raises:
        AssertionError: If the variants learn different merges.
    """
    answers = {name: [] for name in variants}
    target = vocab_size - training_rows.FIRST_MERGE
    for index in range(rounds):
        for name in variants if index % 2 == 0 else variants[::-1]:
            trainer, _ = VARIANTS[name]
            answers[name] += training_rows.checked_runs(trainer, path, [target])
            seconds = sum(answers[name][-1]["checkpoints"][-1][1].values())
            print(f"{corpus}: {name}: {seconds:.3f} s", flush=True)
    rows = []
    for name, found in answers.items():
        trainer, note = VARIANTS[name]
        (merging,) = training_rows.rows(trainer, corpus, path, found, target)
        row = replace(merging, comparison="ablations", stage=name, note=note, checkpoints=[])
        rows.append(row)
    return rows


def one_long_word():
    """Write a file with one word of random letters, and return its path."""
    CACHE.mkdir(exist_ok=True)
    path = CACHE / f"one-word-{LONG_WORD}.txt"
    letters = np.random.default_rng(0).integers(97, 123, LONG_WORD, np.uint8)
    path.write_bytes(letters.tobytes())
    return path


if __name__ == "__main__":
    main()
