"""Parity-aware training and training on the same texts together.

    python -m benchmarks.stages.parity FILE FILE [FILE ...] [--vocab-size 16000] [--rounds 5]

The last twentieth of each text is held out. Before anything is timed, the first 300 merges of the
beginnings of the texts are compared with the readable definition. The two trainings take turns; the
table has the medians of the CPU seconds of merging, without reading and counting, and the median of
their ratios. The last columns are the bytes per token of the worst held-out text and the Gini
coefficient of all of them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import machine_line
from cs336_basics import TRAINERS, Tokenizer
from cs336_basics.counting import WordCounts, count_texts
from cs336_basics.reports.measures import gini

HELD_OUT = 20
CHECKED_BYTES = 20_000
CHECKED_MERGES = 300


def counted(path: str) -> tuple[WordCounts, WordCounts, str]:
    """Return the words of the training text and of the held-out text, and the held-out text."""
    text = Path(path).read_text(encoding="utf-8", errors="ignore")
    cut = text.rfind("\n", 0, len(text) - len(text) // HELD_OUT) + 1
    return count_texts([text[:cut]]), count_texts([text[cut:]]), text[cut:]


def check(paths: Sequence[str]) -> None:
    """Compare the native trainer with the definition on the beginning of each text."""
    texts = [
        Path(path).read_bytes()[:CHECKED_BYTES].decode("utf-8", errors="ignore") for path in paths
    ]
    words = [count_texts([text]) for text in texts]
    size = 256 + CHECKED_MERGES
    merges = [
        TRAINERS[name]().train_parity_from_counts(words, size, dev=words)[1]
        for name in ("naive", "native")
    ]
    assert merges[0] == merges[1]


def main(argv: list[str] | None = None) -> None:
    """Print a table with a row for each way to train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--vocab-size", type=int, default=16_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    check(options.files)
    train, dev, texts = zip(*map(counted, options.files), strict=True)
    together = WordCounts.combined(list(train))
    trainer = TRAINERS["native"](num_workers=1)
    ways = {
        "together": lambda: trainer.train_from_counts(together, options.vocab_size),
        "parity": lambda: trainer.train_parity_from_counts(train, options.vocab_size, dev=dev),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    learned = {}
    for _ in range(options.rounds):
        for way, learn in ways.items():
            start = time.process_time()
            learned[way] = learn()
            seconds[way].append(time.process_time() - start)
    print(machine_line())
    print("| training | CPU s | worst | Gini |")
    print("|---|---|---|---|")
    for way in ways:
        tokenizer = Tokenizer(*learned[way])
        rates = [len(text.encode()) / len(tokenizer.encode_array(text)) for text in texts]
        median = statistics.median(seconds[way])
        print(f"| {way} | {median:.2f} | {min(rates):.3f} | {gini(rates):.4f} |")
    ratios = [b / a for a, b in zip(seconds["together"], seconds["parity"], strict=True)]
    print(f"parity takes {statistics.median(ratios):.2f} times as long")


if __name__ == "__main__":
    main()
