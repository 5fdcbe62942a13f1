"""The learning-rate schedule: exact at its borders, smooth between them."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics.training import cosine_schedule


def test_by_hand():
    rates = [cosine_schedule(it, 1.0, 0.1, 4, 12) for it in range(16)]
    assert rates[:5] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert rates[8] == pytest.approx(0.55)  # half way: the mean of both
    assert rates[6] == pytest.approx(0.1 + 0.9 * (1 + math.sqrt(0.5)) / 2)
    assert rates[10] == pytest.approx(0.1 + 0.9 * (1 - math.sqrt(0.5)) / 2)
    assert rates[12:] == [0.1] * 4


rates = st.floats(1e-12, 10.0)


@settings(deadline=None)
@given(rates, rates, st.integers(0, 50), st.integers(0, 50), st.integers(1, 1000))
def test_borders_are_exact_and_the_rest_lies_between(a, b, warmup, length, after):
    low, high = min(a, b), max(a, b)
    cycle = warmup + length
    rate = [cosine_schedule(it, high, low, warmup, cycle) for it in range(cycle + 1)]
    assert rate[0] == (0.0 if warmup > 0 else high)
    assert rate[warmup] == high
    if length > 0:
        assert rate[cycle] == low
    assert cosine_schedule(cycle + after, high, low, warmup, cycle) == low
    rise, fall = rate[: warmup + 1], rate[warmup:]
    assert rise == sorted(rise)
    for before, now in itertools.pairwise(fall):  # a last bit may be lost where the rates are close
        assert now <= before * (1 + 1e-12)
        assert low * (1 - 1e-12) <= now <= high * (1 + 1e-12)


def test_without_warmup_and_with_nothing_else():
    assert cosine_schedule(0, 1.0, 0.1, 0, 10) == 1.0
    assert cosine_schedule(0, 1.0, 0.1, 0, 0) == 1.0
    assert cosine_schedule(1, 1.0, 0.1, 0, 0) == 0.1
    assert [cosine_schedule(it, 1.0, 0.1, 2, 2) for it in range(5)] == [0, 0.5, 1.0, 0.1, 0.1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 1.0, 0.1, 2, 10), "it must be at least 0, not -1"),
        ((0, 1.0, 0.1, -2, 10), "warmup_iters must lie in .*-2"),
        ((0, 1.0, 0.1, 11, 10), "not 11 with cosine_cycle_iters = 10"),
        ((0, 0.1, 1.0, 2, 10), "not 1.0 with max_learning_rate = 0.1"),
        ((0, 1.0, -0.1, 2, 10), "min_learning_rate must lie in .*-0.1"),
        ((0, math.nan, 0.1, 2, 10), "nan"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        cosine_schedule(*arguments)
