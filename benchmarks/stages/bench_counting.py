"""Benchmark every stage of `counting.py` on every corpus."""

import pytest

from benchmarks.corpora import head_of
from benchmarks.report.measurements import attach_rate
from benchmarks.stages.counting import SHIPPED, SLOW, SLOW_BYTES, STAGES


@pytest.mark.parametrize("stage", STAGES)
def test_counting(benchmark, corpus, stage):
    path = head_of(corpus.path, SLOW_BYTES) if stage in SLOW else corpus.path
    size = path.stat().st_size
    assert STAGES[stage](path) == STAGES[SHIPPED](path)

    benchmark.group = f"counting, {corpus}"
    benchmark.pedantic(STAGES[stage], args=(path,), rounds=3 if stage in SLOW else 7)
    attach_rate(
        benchmark, "counting", corpus, None, stage, size, words=len(corpus.word_counts),
        measured=None if size == corpus.num_bytes else size / 1e6,
    )  # fmt: skip
