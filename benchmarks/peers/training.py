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
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.machine import in_new_process, machine_line
from benchmarks.peers.training_run import LIBRARIES
from cs336_basics.pretokenization import PATTERNS

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
    try:
        return in_new_process(script, repr(time.time()), *words, **environment)
    except RuntimeError as error:
        return {"error": str(error)}


def agreement(tokens, reference):
    if tokens == reference:
        return "identical"
    common = len(set(tokens) & set(reference)) / max(len(reference), 1)
    return f"{common:.2%} of tokens"


def compare(path, vocab_size, threads, rounds, names):
    """Run the trainers in turn, and return a row for each."""
    runs = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as directory:
        # The first run compiles bytecode, so it is not counted.
        short_text = Path(directory) / "short.txt"
        short_text.write_text(SHORT_TEXT, encoding="utf-8")
        for name in names:
            run(name, short_text, 260, threads, directory)
        for _ in range(rounds):
            for name in names:
                if not any("error" in earlier for earlier in runs[name]):
                    runs[name].append(run(name, path, vocab_size, threads, directory))
    return [row_of(name, runs[name], runs["ours"][-1]) for name in names]


def row_of(name, runs, ours):
    if "error" in runs[-1]:
        return {"trainer": name, "error": runs[-1]["error"]}
    return {
        "trainer": name,
        "seconds": [run["seconds"] for run in runs],
        "whole": statistics.median(run["whole"] for run in runs),
        "peak": statistics.median(run["peak"] for run in runs),
        "agreement": agreement(runs[-1]["tokens"], ours["tokens"]),
    }


def show(path, vocab_size, threads, rows):
    size = Path(path).stat().st_size / 1e6
    print(f"\n**{Path(path).stem}, {size:.1f} MB, {vocab_size:,} tokens, {threads} threads**\n")
    print("| trainer | seconds (min-max) | times ours | whole process | times ours | peak MB "
          "| agreement |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    base = next(row for row in rows if row["trainer"] == "ours")
    for row in rows:
        if "error" in row:
            print(f"| {row['trainer']} | failed: {row['error']} | | | | | |")
            continue
        seconds, ours = statistics.median(row["seconds"]), statistics.median(base["seconds"])
        print(
            f"| {row['trainer']} | {seconds:.3f} ({min(row['seconds']):.3f}-"
            f"{max(row['seconds']):.3f}) | {seconds / ours:.1f} | {row['whole']:.3f} | "
            f"{row['whole'] / base['whole']:.1f} | {row['peak'] / 1e6:,.0f} | {row['agreement']} |",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--vocab-size", type=int, nargs="+", default=[32_000])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--trainers", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    options = parser.parse_args()
    names = list(dict.fromkeys(["ours", *options.trainers]))
    print("machine:", machine_line())
    for path in options.files:
        for vocab_size in options.vocab_size:
            rows = compare(path, vocab_size, options.threads, options.rounds, names)
            show(path, vocab_size, options.threads, rows)


if __name__ == "__main__":
    main()
