"""Learning-rate schedules, at the boundaries of their phases and in between."""

from __future__ import annotations

import dataclasses
import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics.training import cosine_schedule, linear_schedule
from cs336_basics.training.config import ScheduleConfig, TrainConfig
from cs336_basics.training.schedule import resumed_schedule, scheduled_learning_rate
from tests.errors import rejects


def test_cosine_values_by_hand():
    rates = [cosine_schedule(it, 1.0, 0.1, 4, 12) for it in range(16)]
    assert rates[:5] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert rates[8] == pytest.approx(0.55)  # halfway: the mean of maximum and minimum
    assert rates[6] == pytest.approx(0.1 + 0.9 * (1 + math.sqrt(0.5)) / 2)
    assert rates[10] == pytest.approx(0.1 + 0.9 * (1 - math.sqrt(0.5)) / 2)
    assert rates[12:] == [0.1] * 4


rates = st.floats(1e-12, 10.0)


@settings(deadline=None)
@given(rates, rates, st.integers(0, 50), st.integers(0, 50), st.integers(1, 1000))
def test_cosine_borders_are_exact_and_the_rest_lies_between(a, b, warmup, length, after):
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
    for before, now in itertools.pairwise(fall):  # rounding may change the last bit
        assert now <= before * (1 + 1e-12)
        assert low * (1 - 1e-12) <= now <= high * (1 + 1e-12)


def test_cosine_without_warmup_and_without_decay():
    assert cosine_schedule(0, 1.0, 0.1, 0, 10) == 1.0
    assert cosine_schedule(0, 1.0, 0.1, 0, 0) == 1.0
    assert cosine_schedule(1, 1.0, 0.1, 0, 0) == 0.1
    assert [cosine_schedule(it, 1.0, 0.1, 2, 2) for it in range(5)] == [0, 0.5, 1.0, 0.1, 0.1]


# plateau and linear decay


def test_linear_values_by_hand():
    rates = [linear_schedule(it, 1.0, 0.2, 2, 4, 8) for it in range(10)]
    assert rates == pytest.approx([0.0, 0.5, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2, 0.2])
    to_zero = [linear_schedule(it, 1.0, 0.0, 1, 4, 5) for it in range(7)]
    assert to_zero == [0.0, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    assert [linear_schedule(it, 1.0, 0.1, 0, 0, 2) for it in range(4)] == [1.0, 1.0, 1.0, 0.1]


@settings(deadline=None)
@given(rates, rates, st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_linear_borders_are_exact_and_the_rest_lies_between(a, b, warmup, plateau, decay):
    low, high = min(a, b), max(a, b)
    cycle = warmup + plateau + decay
    rate = [linear_schedule(it, high, low, warmup, decay, cycle) for it in range(cycle + 2)]
    assert rate[0] == (0.0 if warmup > 0 else high)
    assert set(rate[warmup : warmup + plateau + 1]) == {high}
    assert rate[cycle + 1] == low
    assert rate[cycle] == (low if decay > 0 else high)
    assert rate[: warmup + 1] == sorted(rate[: warmup + 1])
    falls = [before - now for before, now in itertools.pairwise(rate[warmup + plateau : cycle + 1])]
    assert falls == pytest.approx([(high - low) / decay] * decay if decay else [], abs=1e-9 * high)


def test_a_configuration_chooses_its_schedule():
    cosine = ScheduleConfig(max_learning_rate=1.0, min_learning_rate=0.1, warmup_fraction=0.1)
    for step in (0, 3, 10, 60, 100, 120):
        assert scheduled_learning_rate(step, cosine, 100) == cosine_schedule(
            step, 1.0, 0.1, 10, 100
        )
    linear = dataclasses.replace(cosine, shape="linear")
    expected = [linear_schedule(step, 1.0, 0.1, 10, 90, 100) for step in range(120)]
    assert [scheduled_learning_rate(step, linear, 100) for step in range(120)] == expected
    plateau = dataclasses.replace(linear, decay_fraction=0.2, cycle_steps=50)
    expected = [linear_schedule(step, 1.0, 0.1, 5, 10, 50) for step in range(120)]
    assert [scheduled_learning_rate(step, plateau, 100) for step in range(120)] == expected


@pytest.mark.parametrize(
    ("schedule", "good", "bad"),
    [
        (cosine_schedule, (0, 1.0, 0.1, 2, 10), [(3, -1), (3, 11)]),
        (
            linear_schedule,
            (0, 1.0, 0.1, 2, 4, 10),
            [(3, -1), (4, -3), (3, 7), (3, math.nan), (5, math.nan)],
        ),
    ],
)
def test_bad_values_are_rejected(schedule, good, bad):
    schedule(*good)
    everywhere = [(0, -1), (0, math.nan), (1, math.inf), (1, math.nan), (1, 0.05), (2, -0.1)]
    for position, value in [*everywhere, (2, math.nan), *bad]:
        arguments = [*good[:position], value, *good[position + 1 :]]
        with pytest.raises(InputError, match=str(value)):
            schedule(*arguments)
    for position in range(len(good)):
        with pytest.raises(InputTypeError, match="None"):
            schedule(*good[:position], None, *good[position + 1 :])


# resumed runs


@pytest.mark.parametrize(
    ("cycle", "steps", "how", "end", "is_said"),
    [
        (None, 600, "continue", None, False),
        (None, 600, "extend", None, False),
        (None, 700, "continue", 600, True),
        (None, 700, "extend", None, True),
        (None, 400, "continue", 600, True),
        (None, 400, "extend", None, True),
        (500, 600, "continue", 500, False),
        (500, 600, "extend", None, True),
        (500, 700, "continue", 500, True),
        (500, 700, "extend", None, True),
    ],
)
def test_the_end_of_the_schedule_of_a_resumed_run(cycle, steps, how, end, is_said):
    old = ScheduleConfig(cycle_steps=cycle)
    new, line = resumed_schedule(TrainConfig(max_steps=steps, schedule=old), 600, how)
    assert new == dataclasses.replace(old, cycle_steps=end)
    assert (line is not None) is is_said
    if how == "continue":  # the learning rate of each step stays the same
        for step in range(1, 701):
            before = scheduled_learning_rate(step, old, 600)
            assert scheduled_learning_rate(step, new, steps) == before


def test_added_steps_with_a_learning_rate_of_zero_are_rejected():
    schedule = ScheduleConfig(min_learning_rate=0)
    with rejects("max_steps", 700):
        resumed_schedule(TrainConfig(max_steps=700, schedule=schedule), 600, "continue")
    for steps, how in ((700, "extend"), (600, "continue"), (400, "continue")):
        resumed_schedule(TrainConfig(max_steps=steps, schedule=schedule), 600, how)
