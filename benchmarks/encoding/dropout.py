"""Encoding with BPE-dropout and without it.

    python -m benchmarks.encoding.dropout TOKENIZER TEXT [TEXT ...] [--rounds 5]

TOKENIZER is a directory with a tokenizer.json. Before a text is timed, its first ids are compared
with the readable definition. One thread encodes the text in memory with each probability in turn,
with a warm cache; the table has the best rates in MB/s of CPU time, the ratio to encoding without
dropout, and how many more tokens there are.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from benchmarks.machine import machine_line
from cs336_basics import Tokenizer
from cs336_basics.tokenizer import Dropout
from cs336_basics.tokenizer.reference import encode_text_with_dropout

PROBABILITIES = (0.0, 0.01, 0.1, 0.3, 0.6)
CHECKED = 3_000
MOST_BYTES = 20 << 20


def check(tokenizer: Tokenizer, text: str, probability: float) -> None:
    """Compare the ids of the beginning of a text with the definition."""
    text, dropout = text[:CHECKED], Dropout(probability, seed=1)
    expected = encode_text_with_dropout(
        text,
        tokenizer.vocab,
        tokenizer.merges,
        dropout,
        0,
        tokenizer.added_tokens,
        tokenizer.pattern,
    )
    assert tokenizer.encode_batch([text], dropout=dropout) == [expected]


def measure(tokenizer: Tokenizer, text: str, rounds: int) -> list[tuple[float, int]]:
    """Return the rate in MB/s and the number of tokens for each probability."""
    num_bytes = len(text.encode())
    best = dict.fromkeys(PROBABILITIES, float("inf"))
    tokens = {}
    for _ in range(rounds + 1):  # the first round fills the cache
        for probability in PROBABILITIES:
            start = time.process_time()
            batch = tokenizer.encode_batch_array(
                [text], dropout=Dropout(probability, seed=1), num_workers=1
            )
            best[probability] = min(best[probability], time.process_time() - start)
            tokens[probability] = len(batch.arrays()[0])
    return [(num_bytes / 1e6 / best[p], tokens[p]) for p in PROBABILITIES]


def main(argv: list[str] | None = None) -> None:
    """Print a table for each text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokenizer")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    tokenizer = Tokenizer.from_directory(options.tokenizer)
    print(machine_line())
    for path in options.files:
        text = Path(path).read_bytes()[:MOST_BYTES].decode("utf-8", errors="ignore")
        for probability in PROBABILITIES[1:]:
            check(tokenizer, text, probability)
        rows = measure(tokenizer, text, options.rounds)
        print(f"\n{Path(path).name}\n\n| dropout | MB/s | ratio | tokens |\n|---|---|---|---|")
        for probability, (rate, number) in zip(PROBABILITIES, rows, strict=True):
            print(
                f"| {probability} | {rate:.0f} | {rate / rows[0][0]:.3f} "
                f"| {number / rows[0][1] - 1:+.0%} |"
            )


if __name__ == "__main__":
    main()
