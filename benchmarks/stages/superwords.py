"""Superwords and plain BPE of equal size, on whole texts.

    python -m benchmarks.stages.superwords FILE [FILE ...]

For each text, two vocabularies of 20,000 tokens are trained on all but the last twentieth: plain
BPE, and 16,000 tokens of plain BPE followed by superwords. The rows have the bytes per token on the
last twentieth (at most 4 MB of it), the CPU time of the two trainings, the speed of plain BPE in
one thread for text that is new and for text that was encoded several times, and the speeds with
superwords divided by these. The two vocabularies take turns, and the best of several rounds counts.
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
ROUNDS = 4
REPETITIONS = 5


def split(path: str, folder: str) -> tuple[Path, str]:
    """Return a file with the text to train on, and the held-out text. The cut is at a line end."""
    data = Path(path).read_bytes()
    cut = data.rfind(b"\n", 0, len(data) - len(data) // HELD_OUT) + 1
    training = Path(folder, "training.txt")
    training.write_bytes(data[:cut])
    return training, data[cut : cut + MOST_HELD_OUT].decode(errors="ignore")


def trained(training: Path, superwords_from: int | None, size: int) -> tuple[Tokenizer, float]:
    """Return a tokenizer, and the CPU seconds of its training."""
    trainer = TRAINERS["native"](superwords_from=superwords_from)
    start = time.process_time()
    vocab, merges = trainer.train(training, size, [END_OF_TEXT])
    seconds = time.process_time() - start
    return Tokenizer(vocab, merges, [END_OF_TEXT], pattern=trainer.tokenizer_pattern), seconds


def encoding_times(tokenizer: Tokenizer, text: str) -> tuple[int, float, float]:
    """Return the number of tokens, and the CPU seconds for new text and for the same text again."""
    new = Tokenizer.of(tokenizer.definition)
    new.encode_array("a b", num_workers=1)
    seconds = []
    for _ in range(1 + REPETITIONS):
        start = time.process_time()
        num_tokens = len(new.encode_array(text, num_workers=1))
        seconds.append(time.process_time() - start)
    return num_tokens, seconds[0], min(seconds[1:])


def row(path: str, superwords_from: int, size: int) -> str:
    """Return the row of a text."""
    with tempfile.TemporaryDirectory() as folder:
        training, text = split(path, folder)
        plain, plain_seconds = trained(training, None, size)
        superwords, superword_seconds = trained(training, superwords_from, size)
    rounds = [
        (encoding_times(plain, text), encoding_times(superwords, text)) for _ in range(ROUNDS)
    ]
    num_bytes = len(text.encode())
    (num_plain, *_), (num_superwords, *_) = rounds[0]
    times = [[min(one[side][i] for one in rounds) for i in (1, 2)] for side in (0, 1)]
    rates = " / ".join(f"{num_bytes / 1e6 / seconds:.0f}" for seconds in times[0])
    shares = " | ".join(f"{a / b:.2f}" for a, b in zip(*times, strict=True))
    return (
        f"| {Path(path).stem} | {os.path.getsize(path) / 1e6:.0f} | {num_bytes / num_plain:.3f} "
        f"| {num_bytes / num_superwords:.3f} | {num_plain / num_superwords - 1:+.1%} "
        f"| {plain_seconds:.2f} / {superword_seconds:.2f} | {rates} | {shares} |"
    )


def main(argv: list[str] | None = None) -> None:
    """Print a row for each text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--vocab-size", type=int, default=20_000)
    parser.add_argument("--superwords-from", type=int, default=16_000)
    options = parser.parse_args(argv)
    print("| text | MB | plain | superwords | gain | CPU s | plain MB/s | new | again |")
    print("|---|---|---|---|---|---|---|---|---|")
    for path in options.files:
        print(row(path, options.superwords_from, options.vocab_size), flush=True)


if __name__ == "__main__":
    main()
