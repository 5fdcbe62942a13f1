"""The machine's memory, peak memory of this process, and errors of memory that ran out."""

from __future__ import annotations

import contextlib
import os
import sys


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory ran out. torch raises RuntimeErrors for it."""
    is_from_gpu = type(error).__name__ == "OutOfMemoryError"  # without importing torch
    return isinstance(error, MemoryError) or is_from_gpu or "DefaultCPUAllocator" in str(error)


def physical_memory() -> int | None:
    """Return the machine's memory in bytes, or None if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


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
