"""Training on hostile input: does ten times the text cost at most twelve times the time?

    python -m benchmarks.stages.hostile --megabytes 1 3 10 30 --rounds 5

Texts for which a naive trainer takes hours, or hundreds of gigabytes: one pre-token of megabytes, a
million words that all occur once, pairs that are all tied. Every run is a new process (the cost of
first touching memory is included) that trains from a file; the sizes run alternately. The table has
the medians of the whole training from Python and of the merge loop alone, and the ratios for ten
times the input. First the merges are compared with those of the `memoryview` trainer, on as much of
each text as it can handle.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

from benchmarks.machine import in_new_process, machine_line, peak_memory_of_this_process
from cs336_basics.bpe import TRAINERS

VOCAB_SIZE = 32_000
CHECKED_BYTES = 100_000
LETTERS = bytes(97 + i % 26 for i in range(256))


def random_letters(num_bytes):
    return random.Random(1).randbytes(num_bytes).translate(LETTERS)


SHAPES = {
    "one word of one letter": lambda n: b"a" * n,
    "one word of `ab`": lambda n: b"ab" * (n // 2),
    "one word of random letters": random_letters,
    "numbers, each once": lambda n: b"".join(b" %08d" % i for i in range(n // 9)),
    "random words, each once": lambda n: b" ".join(
        letters[i : i + 9] for letters in [random_letters(n)] for i in range(0, n, 10)
    ),
}


def learn(path):
    """Train; return the merges and the seconds of the whole and of the merge loop."""
    trainer = TRAINERS["native"]()
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, merges = trainer.train(path, VOCAB_SIZE, [])
    whole = time.perf_counter() - start
    loop = sum(
        trainer.timings[phase] for phase in ("counting pairs", "finding the maximum", "updating")
    )
    return merges, {"whole": whole, "loop": loop, "peak": peak_memory_of_this_process()}


def check(path):
    """Compare the merges of a file with those of another trainer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, expected = TRAINERS["memoryview"]().train(path, VOCAB_SIZE, [])
    assert learn(path)[0] == expected, f"{path}: native differs from memoryview"


def measure(shape, sizes, rounds, directory):
    """Return size in MB -> {"whole", "loop", "peak"}, medians."""
    text = Path(directory) / "check.txt"
    text.write_bytes(SHAPES[shape](CHECKED_BYTES))
    check(text)
    paths = {}
    for size in sizes:
        paths[size] = Path(directory) / f"{size}.txt"
        paths[size].write_bytes(SHAPES[shape](size * 1_000_000))
    runs = {size: [] for size in sizes}
    for _ in range(rounds):
        for size in sizes:
            runs[size].append(in_new_process(__file__, "--worker", paths[size]))
    return {
        size: {key: statistics.median(r[key] for r in runs[size]) for key in runs[size][0]}
        for size in sizes
    }


def show(shape, medians):
    for size, values in medians.items():
        row = f"| {shape} | {size} | {values['whole']:.3f} | {values['loop']:.3f} "
        row += f"| {values['peak'] / 1e6:,.0f} "
        smaller = medians.get(size / 10)
        for key in ("whole", "loop"):
            row += f"| {values[key] / smaller[key]:.1f} " if smaller else "| "
        print(row + "|", flush=True)


def main():
    if sys.argv[1:2] == ["--worker"]:
        print(json.dumps(learn(sys.argv[2])[1]))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, nargs="+", default=[1, 3, 10, 30])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    options = parser.parse_args()
    print("machine:", machine_line())
    print(f"\n**Hostile input, {VOCAB_SIZE:,} tokens, medians of {options.rounds}**\n")
    print("| text | MB | training, s | merge loop, s | peak MB | training, x10 | merge loop, x10 |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        for shape in options.shapes:
            show(shape, measure(shape, options.megabytes, options.rounds, directory))


if __name__ == "__main__":
    main()
