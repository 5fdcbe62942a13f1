"""Learning-rate schedules: linear warm-up, then half a cosine, or a plateau and a straight line."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from cs336_basics.training.config import ScheduleConfig, TrainConfig


def scheduled_learning_rate(step: int, config: ScheduleConfig, max_steps: int) -> float:
    """Return the learning rate of a step (from 1) in a run of `max_steps` with this schedule.

    Raises ValueError for a shape that is neither "cosine" nor "linear".
    """
    cycle = max_steps if config.cycle_steps is None else config.cycle_steps
    warmup = round(config.warmup_fraction * cycle)
    highest, lowest = config.max_learning_rate, config.min_learning_rate
    if config.shape == "cosine":
        return cosine_schedule(step, highest, lowest, warmup, cycle)
    if config.shape != "linear":
        raise ValueError(f"schedule.shape is {config.shape!r}: it must be cosine or linear")
    decay = min(round(config.decay_fraction * cycle), cycle - warmup)
    return linear_schedule(step, highest, lowest, warmup, decay, cycle)


def resumed_schedule(
    config: TrainConfig, steps_before: int, how: Literal["continue", "extend"]
) -> tuple[ScheduleConfig, str | None]:
    """Return the schedule of a run that is resumed, and a line about it if `max_steps` differs.

    Args:
        config: the run's, with the new `max_steps`.
        steps_before: the `max_steps` that the run had.
        how: `"continue"`: the schedule ends where it would have ended; `"extend"`: at `max_steps`.

    Raises:
        ValueError: the learning rate of the added steps would be 0.
    """
    old, steps = config.schedule, config.max_steps
    end = old.cycle_steps or steps_before
    if how == "extend":
        new = dataclasses.replace(old, cycle_steps=None)
        before, now = (scheduled_learning_rate(end, s, n) for s, n in ((old, end), (new, steps)))
        if steps == end:
            return new, None
        return new, (
            f"the schedule of the learning rate now ends at step {steps:,} instead of {end:,}: "
            f"at step {end:,} it is {now:.3g} instead of {before:.3g}"
        )
    if steps == steps_before:
        return old, None
    new, lowest = dataclasses.replace(old, cycle_steps=end), old.min_learning_rate
    if steps > end and lowest == 0:
        raise ValueError(
            f"max_steps is {steps}: the learning rate is 0 after step {end}, where the schedule of "
            "this run ends, so further steps would learn nothing; --schedule extend ends it at "
            "max_steps"
        )
    rest = f", then the learning rate stays at {lowest:.3g}" if steps > end else ""
    return new, (
        f"max_steps becomes {steps:,}: the schedule of the learning rate still ends at step "
        f"{end:,}{rest} (--schedule extend: it ends at step {steps:,})"
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
    - between: falls along half a cosine;
    - it >= cosine_cycle_iters: min_learning_rate exactly.

    If warmup_iters = cosine_cycle_iters, that iteration has the maximum and the next one the
    minimum.

    Raises ValueError for a negative `it`, unless 0 <= warmup_iters <= cosine_cycle_iters, and
    unless 0 <= min_learning_rate <= max_learning_rate < inf.
    """
    if not 0 <= warmup_iters <= cosine_cycle_iters:
        raise ValueError(
            "warmup_iters must lie in 0 .. cosine_cycle_iters, not "
            f"{warmup_iters} with cosine_cycle_iters = {cosine_cycle_iters}"
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
    - between: falls along a straight line;
    - it >= cycle_iters: min_learning_rate exactly.

    "Warmup-stable-decay" (Hu et al. 2024, "MiniCPM", section 4); without a plateau and with a
    minimum of 0 the decay to zero that beats the cosine at every budget (Bergsma et al. 2025,
    "Straight to Zero").

    Raises ValueError for a negative `it`, a negative number of iterations, unless
    warmup_iters + decay_iters <= cycle_iters, and unless 0 <= min_learning_rate <=
    max_learning_rate < inf.
    """
    if min(warmup_iters, decay_iters) < 0 or warmup_iters + decay_iters > cycle_iters:
        raise ValueError(
            "warmup_iters and decay_iters must be at least 0 and fit into cycle_iters, not "
            f"{warmup_iters} and {decay_iters} with cycle_iters = {cycle_iters}"
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
    if not it >= 0:
        raise ValueError(f"it is {it}: it must be at least 0")
    if not 0 <= min_learning_rate <= max_learning_rate < math.inf:
        raise ValueError(
            "min_learning_rate must lie in 0 .. max_learning_rate, and both be finite, not "
            f"{min_learning_rate} with max_learning_rate = {max_learning_rate}"
        )
