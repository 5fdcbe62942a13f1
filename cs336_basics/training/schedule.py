"""Learning-rate schedules: linear warm-up, then half a cosine, or a plateau and a straight line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cs336_basics.training.config import ScheduleConfig


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
