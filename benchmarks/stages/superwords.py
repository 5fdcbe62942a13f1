"""Superwords and plain BPE of equal size, on whole texts.

    python -m benchmarks.stages.superwords FILE [FILE ...]

For each text, two vocabularies of 20,000 tokens are trained on all but the last twentieth: plain
BPE, and 16,000 tokens of plain BPE followed by superwords. The rows have the bytes per token on the
last twentieth (at most 4 MB of it), the CPU time and the wall time of the two trainings, and the
rates at which one thread encodes the held-out text the first and the second time.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from cs336_basics import TRAINERS, Tokenizer
from cs336_basics._support.text import END_OF_TEXT

HELD_OUT = 20
MOST_HELD_OUT = 4 << 20


def split(path: str, folder: str) -> tuple[Path, str]:
    """Return a file with the text to train on, and the held-out text. The cut is at a line end."""
    data = Path(path).read_bytes()
    cut = data.rfind(b"\n", 0, len(data) - len(data) // HELD_OUT) + 1
    training = Path(folder, "training.txt")
    training.write_bytes(data[:cut])
    return training, data[cut : cut + MOST_HELD_OUT].decode(errors="ignore")


def measure(training: Path, text: str, superwords_from: int | None, size: int) -> list[float]:
    """Return bytes per token, CPU and wall seconds of training, and two rates in MB/s."""
    trainer = TRAINERS["native"](superwords_from=superwords_from)
    wall, cpu = time.perf_counter(), time.process_time()
    vocab, merges = trainer.train(training, size, [END_OF_TEXT])
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    tokenizer = Tokenizer(vocab, merges, [END_OF_TEXT], pattern=trainer.tokenizer_pattern)
    num_bytes = len(text.encode())
    rates = []
    for _ in range(2):
        start = time.process_time()
        num_tokens = len(tokenizer.encode_array(text, num_workers=1))
        rates.append(num_bytes / 1e6 / (time.process_time() - start))
    return [num_bytes / num_tokens, cpu, wall, *rates]


def main(argv: list[str] | None = None) -> None:
    """Print a row for each text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--vocab-size", type=int, default=20_000)
    parser.add_argument("--superwords-from", type=int, default=16_000)
    options = parser.parse_args(argv)
    print("| text | MB | plain | superwords | more | CPU s | CPU s | encoding | encoding |")
    print("|---|---|---|---|---|---|---|---|---|")
    for path in options.files:
        with tempfile.TemporaryDirectory() as folder:
            training, text = split(path, folder)
            plain = measure(training, text, None, options.vocab_size)
            words = measure(training, text, options.superwords_from, options.vocab_size)
        print(
            f"| {Path(path).stem} | {os.path.getsize(path) / 1e6:.0f} "
            f"| {plain[0]:.3f} | {words[0]:.3f} | {words[0] / plain[0] - 1:+.1%} "
            f"| {plain[1]:.2f} | {words[1]:.2f} "
            f"| {plain[3]:.0f} / {plain[4]:.0f} | {words[3]:.0f} / {words[4]:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
