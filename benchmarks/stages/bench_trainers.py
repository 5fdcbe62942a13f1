"""Benchmark the trainers and other libraries, from the file to the vocabulary.

Every round is a new process, `trainer_run.py`, which measures its own time (excluding startup) and
peak memory. A time is kept only if another trainer learns the same merges.

- `test_all_stages_to_their_end`: a text and a vocabulary size that all stages can finish.
- `test_whole_corpus`: 10,000 and 32,000 tokens. A stage is stopped after `--max-seconds`, and its
  time is extrapolated. Tables mark extrapolated times with `≈`. `make stages` measures longer.
"""

import tempfile
from functools import cache

import pytest

from benchmarks.corpora import COMMON_VOCAB_SIZE
from benchmarks.peers import training as peers
from benchmarks.report.measurements import attach, attach_rate
from benchmarks.report.tables import WHOLE_SIZES
from benchmarks.stages import training_rows
from benchmarks.stages.counting import CORES, counting_times
from benchmarks.stages.extrapolation import can_be_stopped
from cs336_basics import TRAINERS

LIBRARIES = [name for name in peers.LIBRARIES if name != "ours"]
ROUNDS = 3

_now = 0.0


def measured_clock():
    """Return the time of a clock that `replay` advances by times measured in other processes."""
    return _now


pytestmark = pytest.mark.benchmark(timer=measured_clock)


def replay(benchmark, seconds):
    """Report the durations of completed rounds, in seconds, to pytest-benchmark."""
    left = iter(seconds)

    def advance():
        global _now
        _now += next(left)

    benchmark.pedantic(advance, rounds=len(seconds))


checked_runs = cache(training_rows.checked_runs)
counted = cache(counting_times)


def measure(benchmark, stage, corpus, vocab_size, vocab_sizes, max_seconds=1e9):
    # A run in Python has a checkpoint at each size; a compiled loop has one only at its end.
    sizes = vocab_sizes if can_be_stopped(stage) else [vocab_size]
    targets = tuple(size - training_rows.FIRST_MERGE for size in sizes)
    rounds = 1 if can_be_stopped(stage) else ROUNDS
    rows = training_rows.rows(
        stage, corpus.name, corpus.path,
        checked_runs(stage, corpus.path, targets, rounds, max_seconds=max_seconds),
        vocab_size - training_rows.FIRST_MERGE, counted(stage, corpus.path, rounds),
    )  # fmt: skip
    benchmark.group = f"{corpus}, {vocab_size:,} tokens"
    replay(benchmark, next(row.seconds for row in rows if row.comparison == "shipped"))
    attach(benchmark, *rows)


@pytest.mark.parametrize("stage", TRAINERS)
def test_all_stages_to_their_end(benchmark, common_corpus, stage):
    measure(benchmark, stage, common_corpus, COMMON_VOCAB_SIZE, [COMMON_VOCAB_SIZE])


@pytest.mark.parametrize("stage", TRAINERS)
@pytest.mark.parametrize("vocab_size", WHOLE_SIZES)
def test_whole_corpus(benchmark, corpus, stage, vocab_size, pytestconfig):
    max_seconds = pytestconfig.getoption("--max-seconds")
    measure(benchmark, stage, corpus, vocab_size, WHOLE_SIZES, max_seconds)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("vocab_size", WHOLE_SIZES)
def test_other_library(benchmark, corpus, library, vocab_size):
    with tempfile.TemporaryDirectory() as directory:
        runs = [
            peers.run(library, corpus.path, vocab_size, CORES, directory) for _ in range(ROUNDS)
        ]
    for run in runs:
        if "error" in run:
            pytest.skip(f"{library}: {run['error']}")
    benchmark.group = f"{corpus}, {vocab_size:,} tokens"
    replay(benchmark, [run["seconds"] for run in runs])
    attach_rate(
        benchmark, "shipped", corpus, vocab_size, library, corpus.num_bytes,
        peak_memory=int(max(run["peak"] for run in runs)), is_peer=True,
    )  # fmt: skip
