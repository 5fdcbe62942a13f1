"""A warning about threads that wait actively while other programs need the cores.

The threads of torch spin while they wait for each other, until OpenMP lets them sleep after some
milliseconds. If another program runs on one of the cores, every operation takes as long as this
wait. The commands let the threads sleep earlier (`commands/__init__.py`); a library cannot, because
OpenMP reads its settings when torch is loaded.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch

from cs336_basics._support.warnings import warn

_LOAD = Path("/proc/loadavg")  # exists only on Linux


def warn_if_threads_spin() -> None:
    """Issue a UserWarning if torch's threads spin and other programs need their cores."""
    if "OMP_WAIT_POLICY" in os.environ:
        return
    others = _num_runnable_threads()
    if others + torch.get_num_threads() > (os.cpu_count() or 1):
        warn(
            "other programs are using the cores, so small operations on the CPU may take many "
            "times as long; set the environment variable OMP_WAIT_POLICY=passive before Python "
            "starts, or reduce torch.set_num_threads"
        )


def _num_runnable_threads() -> int:
    """Return how many threads of other programs run or wait for a core. 0 if this is unknown."""
    smallest = 1 << 30
    for _ in range(3):  # programs that run only for a moment do not matter
        try:
            runnable = int(_LOAD.read_text().split()[3].partition("/")[0])
        except (OSError, ValueError, IndexError):
            return 0
        smallest = min(smallest, runnable - 1)  # one is this thread
        time.sleep(0.003)
    return max(0, smallest)
