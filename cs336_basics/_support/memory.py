"""Peak memory of this process."""

from __future__ import annotations

import contextlib
import sys


def peak_memory() -> int | None:
    """Return the peak resident memory of this process in bytes, or None on Windows."""
    # On Linux, `ru_maxrss` of a new process starts at the value of its parent, so read VmHWM.
    with contextlib.suppress(OSError), open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
