"""The counting ladder: every rung of `counting_rungs.py` on every corpus."""

import pytest
from corpora import head_of
from counting_rungs import RUNGS, SLOW
from measurements import Measurement, attach

SLOW_BYTES = 100_000_000
"""Of a larger text, the rungs in Python count this much; their rate is that of the whole."""


@pytest.mark.parametrize("rung", RUNGS)
def test_counting(benchmark, corpus, rung):
    path = head_of(corpus.path, SLOW_BYTES) if rung in SLOW else corpus.path
    size = path.stat().st_size
    assert RUNGS[rung](path) == RUNGS["native, threads"](path)

    benchmark.group = f"counting, {corpus}"
    benchmark.pedantic(RUNGS[rung], args=(path,), rounds=3 if rung in SLOW else 7)
    seconds = list(benchmark.stats.stats.data)
    attach(
        benchmark,
        Measurement(
            "counting", corpus.name, corpus.num_bytes, None, rung, seconds, size / 1e6, "MB",
            measured=None if size == corpus.num_bytes else size / 1e6,
            words=len(corpus.word_counts),
        ),
    )  # fmt: skip
