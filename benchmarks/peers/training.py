"""Compare this library's BPE trainer with others on the same file and number of threads.

    pip install -r benchmarks/peers/peers.txt
    python -m benchmarks.peers.training FILE [FILE ...] --vocab-size 32000 --threads 2 --rounds 5

Every run is a new process, `training_run.py`. The tables show the duration of the training call,
the time from the start of the process until the call returns (including imports), and the peak
memory. The trainers take turns, so that other load on the machine affects all of them. Documents in
the files end with `<|endoftext|>`.

ffbpe with `tie_break="largest_content"` learns the same merges as this library. The others break
ties differently (gigabpe, gigatoken and tokenizers by ids), so the table shows the share of tokens
in common. rustbpe and bpeasy have no special tokens and learn one token fewer. gigabpe counts the
special token as text, and its vocabulary starts with only the bytes that occur in the text, so it
learns a few more merges. On text without special tokens, it learns the merges of
`tie_break="huggingface"`.
"""

import argparse
import itertools
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.machine import in_new_process, machine_line
from benchmarks.peers.training_run import LIBRARIES
from cs336_basics.splitting import PATTERNS

SHORT_TEXT = "the cat sat on the mat and the hat of the cat\n" * 9


def run(name, path, vocab_size, threads, scratch):
    """Run a trainer once in a new process, and return its answer (see `training_run.py`).

    If the run fails, the answer has only the key "error".
    """
    script = Path(__file__).with_name("training_run.py")
    words = (name, path, vocab_size, threads, PATTERNS["gpt2"])
    environment = {
        # Without bytecode files, every process would compile our modules.
        "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(Path(scratch) / "bytecode"),
        "PYTHONWARNINGS": "ignore", "RAYON_NUM_THREADS": str(threads),
    }  # fmt: skip
    return in_new_process(script, repr(time.time()), *words, **environment)


def agreement(tokens, reference):
    if tokens == reference:
        return "identical"
    common = len(set(tokens) & set(reference)) / max(len(reference), 1)
    return f"{common:.2%} of tokens"


def compare(path, vocab_size, threads, rounds):
    """Run the trainers in turn and print a table."""
    runs = {name: [] for name in LIBRARIES}
    with tempfile.TemporaryDirectory() as directory:
        # The first run compiles bytecode, so it is not counted.
        short_text = Path(directory) / "short.txt"
        short_text.write_text(SHORT_TEXT, encoding="utf-8")
        for name in LIBRARIES:
            run(name, short_text, 260, threads, directory)
        for _ in range(rounds):
            for name in LIBRARIES:
                if not any("error" in earlier for earlier in runs[name]):
                    runs[name].append(run(name, path, vocab_size, threads, directory))
    size = Path(path).stat().st_size / 1e6
    print(f"\n**{Path(path).stem}, {size:.1f} MB, {vocab_size:,} tokens, {threads} threads**\n")
    print("| trainer | seconds (min-max) | times ours | whole process | times ours | peak MB "
          "| agreement |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    ours = medians(runs["ours"])
    for name, answers in runs.items():
        if "error" in answers[-1]:
            print(f"| {name} | failed: {answers[-1]['error']} | | | | | |")
            continue
        took = medians(answers)
        rounds_of = [answer["seconds"] for answer in answers]
        print(
            f"| {name} | {took['seconds']:.3f} ({min(rounds_of):.3f}-{max(rounds_of):.3f}) | "
            f"{took['seconds'] / ours['seconds']:.1f} | {took['whole']:.3f} | "
            f"{took['whole'] / ours['whole']:.1f} | {took['peak'] / 1e6:,.0f} | "
            f"{agreement(answers[-1]['tokens'], runs['ours'][-1]['tokens'])} |",
            flush=True,
        )


def medians(answers):
    return {
        key: statistics.median(answer[key] for answer in answers)
        for key in ("seconds", "whole", "peak")
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--vocab-size", type=int, nargs="+", default=[32_000])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print("machine:", machine_line())
    for path, vocab_size in itertools.product(options.files, options.vocab_size):
        compare(path, vocab_size, options.threads, options.rounds)


if __name__ == "__main__":
    main()
