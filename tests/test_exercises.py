"""Test the exercises: stubs and typical mistakes fail their tests, and the library's code passes.

A learner runs `pytest exercises`. This file calls the exercises' test functions one by one.
"""

from __future__ import annotations

import functools
import importlib
import subprocess
import sys

import pytest

from cs336_basics.bpe import IncrementalTrainer, NaiveTrainer
from cs336_basics.bpe.reference import merge_pair
from cs336_basics.bpe.rules import LargestPair
from cs336_basics.bpe.v2_incremental import find_best
from cs336_basics.splitting.safe_cuts import SafeCuts
from cs336_basics.text.cuts import next_cut
from cs336_basics.tokenizer.encoders.python_encoder import WordCache
from tests.documents.blocks import ROOT

# Maps each exercise to the name that learners write and the library's solution.
SOLUTIONS = {
    "ex1_merge_pair": ("merge_pair", merge_pair),
    "ex2_tie": ("find_best", functools.partial(find_best, ties=LargestPair())),
    "ex3_incremental": ("IncrementalTrainer", IncrementalTrainer),
    "ex4_cut": ("next_cut", functools.partial(next_cut, cuts=SafeCuts())),
    "ex5_cache": ("WordCache", WordCache),
}


class Forgetful(WordCache):
    """A cache that keeps only the first 50 words."""

    def __missing__(self, word):
        ids = self._encode_word(word)
        if len(self) < 50:
            self[word] = ids
        return ids


MISTAKES = {
    "ex1_merge_pair": [
        lambda symbols, pair: tuple(
            b" ".join(symbols).replace(b" ".join(pair), b"".join(pair)).split()
        ),
    ],
    "ex2_tie": [
        lambda counts: min(counts, key=lambda pair: (-counts[pair], pair), default=None),
        lambda counts: max(counts, key=lambda p: (counts[p], b"".join(p)), default=None),
    ],
    "ex3_incremental": [NaiveTrainer],
    "ex4_cut": [
        lambda file, target: len(file.getvalue()),
        lambda file, target: (file.getvalue() + b" ").find(b" ", target),
        lambda file, target: (file.getvalue() + b"\n").find(b"\n", target),
    ],
    "ex5_cache": [dict, Forgetful],
}


def functions_of(exercise):
    module = importlib.import_module(f"exercises.test_{exercise}")
    return [value for name, value in vars(module).items() if name.startswith("test_")]


def failures(exercise, solution, monkeypatch):
    """Return the names of the tests that fail with this solution."""
    name, _ = SOLUTIONS[exercise]
    monkeypatch.setattr(f"exercises.{exercise}.{name}", solution)
    failed = []
    for test in functions_of(exercise):
        try:
            test()
        except Exception:
            failed.append(test.__name__)
    return failed


@pytest.mark.parametrize("exercise", SOLUTIONS)
def test_the_library_solves_it(exercise, monkeypatch):
    assert failures(exercise, SOLUTIONS[exercise][1], monkeypatch) == []


@pytest.mark.parametrize("exercise", SOLUTIONS)
def test_a_mistake_is_found(exercise, monkeypatch):
    for mistake in MISTAKES[exercise]:
        assert failures(exercise, mistake, monkeypatch)


def test_every_stub_fails_as_a_learner_runs_it():
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "exercises"]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    for exercise in SOLUTIONS:
        failed = f"FAILED exercises/test_{exercise}.py::" in done.stdout
        assert failed, f"exercises/{exercise}.py is already solved; restore it with git"
