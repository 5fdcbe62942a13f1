"""Benchmark every stage of `counting.py` on every corpus."""

import pytest

from benchmarks.corpora import head_of
from benchmarks.report.measurements import Measurement, attach
from benchmarks.stages.counting import SLOW, SLOW_BYTES, STAGES


@pytest.mark.parametrize("stage", STAGES)
def test_counting(benchmark, corpus, stage):
    path = head_of(corpus.path, SLOW_BYTES) if stage in SLOW else corpus.path
    size = path.stat().st_size
    assert STAGES[stage](path) == STAGES["native, threads"](path)

    benchmark.group = f"counting, {corpus}"
    benchmark.pedantic(STAGES[stage], args=(path,), rounds=3 if stage in SLOW else 7)
    seconds = list(benchmark.stats.stats.data)
    attach(
        benchmark,
        Measurement(
            "counting", corpus.name, corpus.num_bytes, None, stage, seconds, size / 1e6, "MB",
            measured=None if size == corpus.num_bytes else size / 1e6,
            words=len(corpus.word_counts),
        ),
    )  # fmt: skip
