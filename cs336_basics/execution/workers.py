"""How many workers to use."""

from __future__ import annotations

import os

from cs336_basics._support.arguments import checked_integer

MAX_WORKERS = 1 << 16
"""Maximum number of threads or processes, more than any machine can use."""


def resolve_num_workers(num_workers: int | None) -> int:
    """Return `num_workers` or, if it is None, the number of cores available to this process.

    Raises:
        ValueError: If `num_workers` is less than one or greater than MAX_WORKERS.
        TypeError: If `num_workers` is not an int.
    """
    if num_workers is None:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    return checked_integer("num_workers", num_workers, 1, MAX_WORKERS, ", or None (all cores)")
