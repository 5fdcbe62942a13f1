"""Learning-rate schedules: linear warm-up, then a half cosine, or a plateau and a linear decay."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Literal

from cs336_basics._support.arguments import check_is_number
from cs336_basics._support.errors import Argument, InputError

if TYPE_CHECKING:
    from cs336_basics.training.config import ScheduleConfig, TrainConfig


def scheduled_learning_rate(step: int, config: ScheduleConfig, max_steps: int) -> float:
    """Return the learning rate of a step, counted from 1, in a run of `max_steps` steps."""
    cycle = max_steps if config.cycle_steps is None else config.cycle_steps
    warmup = round(config.warmup_fraction * cycle)
    highest, lowest = config.max_learning_rate, config.min_learning_rate
    if config.shape == "cosine":
        return cosine_schedule(step, highest, lowest, warmup, cycle)
    decay = min(round(config.decay_fraction * cycle), cycle - warmup)
    return linear_schedule(step, highest, lowest, warmup, decay, cycle)


def resumed_schedule(
    config: TrainConfig, steps_before: int, how: Literal["continue", "extend"]
) -> tuple[ScheduleConfig, str | None]:
    """Return the schedule of a resumed run, and a line about the change (None without a change).

    Args:
        config: Configuration of the run with the new `max_steps`.
        steps_before: The previous `max_steps`.
        how: "continue" ends the schedule at the same step as before, "extend" at `max_steps`.

    Raises:
        ValueError: If the learning rate of the added steps would be 0.
    """
    old, steps = config.schedule, config.max_steps
    end = old.cycle_steps or steps_before
    if how == "extend":
        new = dataclasses.replace(old, cycle_steps=None)
        before, now = (scheduled_learning_rate(end, s, n) for s, n in ((old, end), (new, steps)))
        if steps == end:
            return new, None
        return new, (
            f"the learning-rate schedule now ends at step {steps:,} instead of {end:,}; the "
            f"learning rate at step {end:,} is {now:.3g} instead of {before:.3g}"
        )
    if steps == steps_before:
        return old, None
    new, lowest = dataclasses.replace(old, cycle_steps=end), old.min_learning_rate
    if steps > end and lowest == 0:
        raise InputError(
            f"must be at most {end}, where the schedule of this run ends with a learning rate of "
            f"0, got {steps}",
            argument="max_steps",
            remedy=("to extend the schedule, pass ", Argument("schedule", "extend")),
        )
    rest = f" and then stays at {lowest:.3g}" if steps > end else ""
    return new, (
        f"max_steps becomes {steps:,}; the learning-rate schedule still ends at step {end:,}{rest} "
        f"(to end it at step {steps:,}, extend the schedule)"
    )


def cosine_schedule(
    it: int,
    max_learning_rate: float,
    min_learning_rate: float,
    warmup_iters: int,
    cosine_cycle_iters: int,
) -> float:
    """Return the learning rate of iteration `it` = 0, 1, 2, ... (Loshchilov & Hutter 2017).

    - it < warmup_iters: rises linearly from 0;
    - it = warmup_iters: max_learning_rate exactly;
    - in between: falls along a half cosine;
    - it >= cosine_cycle_iters: min_learning_rate exactly.

    If warmup_iters = cosine_cycle_iters, that iteration has the maximum learning rate, and the
    next one has the minimum.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: Unless 0 <= it, 0 <= warmup_iters <= cosine_cycle_iters and
            0 <= min_learning_rate <= max_learning_rate < inf.

    Example:
        >>> from cs336_basics.training import cosine_schedule
        >>> [round(cosine_schedule(it, 1.0, 0.1, 2, 6), 3) for it in range(8)]
        [0.0, 0.5, 1.0, 0.868, 0.55, 0.232, 0.1, 0.1]
    """
    _check_are_numbers(warmup_iters=warmup_iters, cosine_cycle_iters=cosine_cycle_iters)
    if not 0 <= warmup_iters <= cosine_cycle_iters:
        raise InputError(
            f"must be between 0 and cosine_cycle_iters ({cosine_cycle_iters}), got {warmup_iters}",
            argument="warmup_iters",
        )
    _check(it, max_learning_rate, min_learning_rate)

    if it < warmup_iters:
        return max_learning_rate * it / warmup_iters
    if it == warmup_iters:
        return max_learning_rate
    if it >= cosine_cycle_iters:
        return min_learning_rate
    progress = (it - warmup_iters) / (cosine_cycle_iters - warmup_iters)  # in (0, 1)
    cosine = (1 + math.cos(math.pi * progress)) / 2  # falls from 1 to 0
    return min_learning_rate + cosine * (max_learning_rate - min_learning_rate)


def linear_schedule(
    it: int,
    max_learning_rate: float,
    min_learning_rate: float,
    warmup_iters: int,
    decay_iters: int,
    cycle_iters: int,
) -> float:
    """Return the learning rate of iteration `it` = 0, 1, 2, ...: warm-up, plateau, linear decay.

    - it < warmup_iters: rises linearly from 0;
    - warmup_iters <= it <= cycle_iters - decay_iters: max_learning_rate exactly;
    - in between: falls along a straight line;
    - it >= cycle_iters: min_learning_rate exactly.

    This is the "warmup-stable-decay" schedule (Hu et al. 2024, "MiniCPM", section 4). Without a
    plateau and with a minimum of 0, it beats the cosine schedule at every budget (Bergsma et al.
    2025, "Straight to Zero").

    Raises:
        TypeError: If an argument is not a number.
        ValueError: Unless all iteration counts are at least 0,
            warmup_iters + decay_iters <= cycle_iters and
            0 <= min_learning_rate <= max_learning_rate < inf.

    Example:
        >>> from cs336_basics.training import linear_schedule
        >>> [round(linear_schedule(it, 1.0, 0.0, 2, 2, 6), 3) for it in range(8)]
        [0.0, 0.5, 1.0, 1.0, 1.0, 0.5, 0.0, 0.0]
    """
    _check_are_numbers(warmup_iters=warmup_iters, decay_iters=decay_iters, cycle_iters=cycle_iters)
    if not (warmup_iters >= 0 and 0 <= decay_iters <= cycle_iters - warmup_iters):
        raise InputError(
            "and decay_iters must be at least 0 and sum to at most cycle_iters "
            f"({cycle_iters}), got {warmup_iters} and {decay_iters}",
            argument="warmup_iters",
        )
    _check(it, max_learning_rate, min_learning_rate)

    if it < warmup_iters:
        return max_learning_rate * it / warmup_iters
    if it <= cycle_iters - decay_iters:
        return max_learning_rate
    if it >= cycle_iters:
        return min_learning_rate
    left = (cycle_iters - it) / decay_iters  # in (0, 1)
    return min_learning_rate + left * (max_learning_rate - min_learning_rate)


def _check(it: int, max_learning_rate: float, min_learning_rate: float) -> None:
    _check_are_numbers(
        it=it, max_learning_rate=max_learning_rate, min_learning_rate=min_learning_rate
    )
    if not it >= 0:
        raise InputError(f"must be at least 0, got {it}", argument="it")
    if not 0 <= min_learning_rate <= max_learning_rate < math.inf:
        raise InputError(
            f"must be between 0 and max_learning_rate ({max_learning_rate}), and both must be "
            f"finite, got {min_learning_rate}",
            argument="min_learning_rate",
        )


def _check_are_numbers(**values: float) -> None:
    for name, value in values.items():
        check_is_number(name, value)
