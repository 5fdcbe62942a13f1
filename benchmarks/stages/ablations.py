"""The merge loop with one idea changed at a time: what each part of a stage gains.

    python -m benchmarks.stages.ablations                                  # all variants
    python -m benchmarks.stages.ablations --only heap memoryview           # some of them
    python -m benchmarks.stages.ablations --rounds 3 --no-record           # measure, keep the rows

Between `heap` and `memoryview`, and between that and `native`, several things change at once. Here
each variant changes one. All variants of a text learn the same merges, which is checked before a
time is kept. The rows go to measurements.json; `report.py` makes the table `ablations` of them.

The variants run alternately, each round in a new process; times are CPU seconds of the merge loop.
"""

import argparse
import hashlib
import json
import sys
import time
import warnings

import numpy as np

from benchmarks.corpora import CACHE, EOT, find_corpora
from benchmarks.machine import in_new_process, peak_memory_of_this_process
from benchmarks.report.measurements import Measurement, record
from cs336_basics import TRAINERS
from cs336_basics.pretokenization import Splitter, count_words

LOOP_PHASES = ("counting pairs", "finding the maximum", "updating")

# variant -> trainer, parts of the native loop that are omitted, what is new in this variant
VARIANTS = {
    "heap": ("heap", (), ""),
    "memoryview": ("memoryview", (), "flat arrays, linked occurrences instead of scanning words"),
    "native, nothing else": (
        "native", ("threshold", "sorted words", "prefetch"),
        "cells and postings in C++; changes summed by neighbour",
    ),
    "native, threshold": ("native", ("sorted words", "prefetch"), "keeps frequent pairs only"),
    "native, threshold, sorted words": ("native", ("prefetch",), "lays words out by count"),
    "native": ("native", (), "prefetches occurrences"),
}  # fmt: skip

LONG_WORD = 200_000
"""Bytes of the text with one long word."""

ON_LONG_WORD = ("memoryview", "native")
"""Variants that are measured on one long word; Python scans it for every merge."""


def main():
    options = parse_options()
    variants = [name for name in VARIANTS if name in (options.only or VARIANTS)]
    command = " ".join(["python -m benchmarks.stages.ablations", *sys.argv[1:]])
    for corpus in find_corpora(options.corpus_bytes):
        rows = measure(variants, corpus.name, corpus.path, options)
        keep(rows, command, options)
    path = one_long_word()
    rows = measure([name for name in variants if name in ON_LONG_WORD], "one word", path, options)
    keep(rows, command, options)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), metavar="VARIANT",
                        help=f"of: {'; '.join(VARIANTS)}")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--vocab-size", type=int, default=10_000)
    parser.add_argument("--corpus-bytes", type=int, default=10_000_000, help="0 = all")
    parser.add_argument("--no-record", action="store_true", help="keep the rows as they are")
    parser.add_argument("--run", help=argparse.SUPPRESS)  # one round, in its own process
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run(**json.loads(options.run))))
        sys.exit()
    if options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}: it must be at least 1")
    return options


def measure(variants, corpus, path, options):
    """Return the rows of a text; the merges of all variants are compared."""
    answers = {name: [] for name in variants}
    for index in range(options.rounds):
        for name in variants if index % 2 == 0 else variants[::-1]:
            answers[name].append(run_in_process(name, path, options.vocab_size))
            print(f"{corpus}: {name}: {answers[name][-1]['seconds']:.3f} s", flush=True)
    results = {answer["merges_hash"] for rounds in answers.values() for answer in rounds}
    if len(results) > 1:
        raise AssertionError(f"the variants learn different merges of {path}")
    return [row(name, corpus, path, rounds, options) for name, rounds in answers.items()]


def row(name, corpus, path, rounds, options):
    phases = {phase: [answer["phases"][phase] for answer in rounds] for phase in LOOP_PHASES}
    return Measurement(
        "ablations", corpus, path.stat().st_size, options.vocab_size, name,
        seconds=[answer["seconds"] for answer in rounds],
        work=rounds[0]["merges"], unit="merges", phases=phases, words=rounds[0]["words"],
        peak_memory=max(answer["peak_memory"] for answer in rounds), note=VARIANTS[name][2],
    )  # fmt: skip


def keep(rows, command, options):
    if rows and not options.no_record:
        record(rows, command)


def run_in_process(name, path, vocab_size):
    request = json.dumps({"name": name, "path": str(path), "vocab_size": vocab_size})
    return in_new_process(__file__, "--run", request)


def run(name, path, vocab_size):
    """Run one variant once; return its CPU seconds, phases, merges, and peak memory."""
    warnings.simplefilter("ignore", UserWarning)
    trainer, omitted, _ = VARIANTS[name]
    learner = TRAINERS[trainer]()
    if omitted:
        learner.omit = omitted
    word_counts = count_words(path, Splitter(special_tokens=[EOT]))
    if trainer != "native":
        word_counts = dict(word_counts)
    start = time.process_time()
    _, merges = learner.train_from_counts(word_counts, vocab_size, [EOT])
    seconds = time.process_time() - start
    return {
        "seconds": seconds,
        "phases": {phase: learner.timings[phase] for phase in LOOP_PHASES},
        "merges": len(merges),
        "merges_hash": hash_of(merges),
        "words": len(word_counts),
        "peak_memory": peak_memory_of_this_process(),
    }


def hash_of(merges):
    """Return a hash that is the same in every process."""
    digest = hashlib.sha256()
    for left, right in merges:
        digest.update(b"%d %d " % (len(left), len(right)) + left + right)
    return digest.hexdigest()


def one_long_word():
    """Return a file with one word of random letters."""
    CACHE.mkdir(exist_ok=True)
    path = CACHE / f"one-word-{LONG_WORD}.txt"
    letters = np.random.default_rng(0).integers(97, 123, LONG_WORD, np.uint8)
    path.write_bytes(letters.tobytes())
    return path


if __name__ == "__main__":
    main()
