"""Check an installed package in seconds: `python tests/quick_check.py`.

This script trains a tokenizer, encodes text and decodes ids, both in Python and with the commands.
It compares the compiled versions with the pure-Python versions. It needs only the package and its
required dependencies, not pytest or torch. The workflow that builds wheels runs it on every system.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import cs336_basics
from cs336_basics import TRAINERS, Tokenizer, train_bpe
from cs336_basics.data.datasets.sample import write_sample

SPECIAL = "<|endoftext|>"
SIZE = 400


def main() -> None:
    """Run all checks. Raise AssertionError at the first failure."""
    print(f"Python {sys.version.split()[0]}, {sys.platform}, {Path(cs336_basics.__file__).parent}")
    print(command("--version").strip())
    # A pure-Python wheel is an error unless it was requested.
    wanted = os.environ.get("CS336_SKIP_EXTENSIONS", "0") in ("", "0")
    assert all(trainer.is_built for trainer in TRAINERS.values()) == wanted, (
        "this is not the requested build"
    )
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder))
    if hasattr(sys, "_is_gil_enabled"):
        print(f"GIL enabled: {sys._is_gil_enabled()}")
    print("passed")


def check(folder: Path) -> None:
    """Check training, encoding, files, threads and commands on a small text."""
    file = write_sample(folder / "stories.txt", 60_000)
    text = file.read_bytes().decode()
    names = [name for name, trainer in TRAINERS.items() if trainer.is_built]
    learned = [train_bpe(file, SIZE, [SPECIAL], trainer=name) for name in names]
    assert all(result == learned[0] for result in learned), "trainers disagree"

    tokenizer = Tokenizer(*learned[0], special_tokens=[SPECIAL])
    plain = Tokenizer(*learned[0], special_tokens=[SPECIAL], backend="reference")
    ids = tokenizer.encode(text)
    assert ids[:500] == plain.encode(text)[:500], "implementations disagree"
    assert tokenizer.decode(ids) == text, "the text changed"
    assert list(tokenizer.encode_array(text, num_workers=2)) == ids, "threads change the ids"
    assert tokenizer.encode_batch([text, "é 猫"], num_workers=2)[0] == ids, "a batch differs"
    in_threads(tokenizer, text, ids)

    vocabulary = folder / "tokenizer"
    command("train-bpe", "--input", file, "--vocab-size", SIZE, "--special-token", SPECIAL,
            "--output", vocabulary)  # fmt: skip
    command("encode", "--tokenizer", vocabulary, "--input", file, "--output", folder / "ids.npy")
    from cs336_basics.tokenizer import load_token_file

    assert load_token_file(folder / "ids.npy").tolist() == ids, "the command's ids differ"


def in_threads(tokenizer: Tokenizer, text: str, ids: list[int]) -> None:
    """Encode and decode in several Python threads that share a tokenizer."""
    failures = []
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        for _ in range(20):
            if tokenizer.encode(text) != ids or tokenizer.decode(ids) != text:
                failures.append("threads disagree")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def command(*words: object) -> str:
    """Run `python -m cs336_basics ...` and return its output."""
    program = [sys.executable, "-m", "cs336_basics", *map(str, words)]
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(program, capture_output=True, text=True, check=False, cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    return done.stdout


if __name__ == "__main__":
    main()
