"""The learning-rate schedule: linear warm-up, then half a cosine."""

from __future__ import annotations

import math


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

    Where warmup_iters = cosine_cycle_iters, that one iteration has the maximum and the next the
    minimum.

    Raises ValueError for a negative `it`, unless 0 <= warmup_iters <= cosine_cycle_iters, and
    unless 0 <= min_learning_rate <= max_learning_rate.
    """
    if it < 0:
        raise ValueError(f"it must be at least 0, not {it}")
    if not 0 <= warmup_iters <= cosine_cycle_iters:
        raise ValueError(
            "warmup_iters must lie in 0 .. cosine_cycle_iters, not "
            f"{warmup_iters} with cosine_cycle_iters = {cosine_cycle_iters}"
        )
    if not 0 <= min_learning_rate <= max_learning_rate:
        raise ValueError(
            "min_learning_rate must lie in 0 .. max_learning_rate, not "
            f"{min_learning_rate} with max_learning_rate = {max_learning_rate}"
        )

    if it < warmup_iters:
        return max_learning_rate * it / warmup_iters
    if it == warmup_iters:
        return max_learning_rate
    if it >= cosine_cycle_iters:
        return min_learning_rate
    progress = (it - warmup_iters) / (cosine_cycle_iters - warmup_iters)  # in (0, 1)
    cosine = (1 + math.cos(math.pi * progress)) / 2  # falls from 1 to 0
    return min_learning_rate + cosine * (max_learning_rate - min_learning_rate)
