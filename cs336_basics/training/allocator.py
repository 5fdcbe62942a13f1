"""The memory allocator of the C library, which tensors on the CPU come from."""

from __future__ import annotations

import ctypes
import os
import platform

# Of malloc.h: the parameters of mallopt, and the greatest threshold for mmap that it accepts.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_MAX_MMAP_THRESHOLD = 4 * 2**20 * ctypes.sizeof(ctypes.c_long)


def keep_freed_memory() -> bool:
    """Have glibc's malloc keep memory that is freed, instead of returning it to the system.

    A training step frees hundreds of megabytes, and the next one allocates them again: where they
    were returned, every page is cleared and mapped again (benchmarks/NOTES.md). The process keeps
    what it needed at its peak. It holds for the whole process, so a command may ask for it, not a
    library.

    Returns:
        Whether it is in effect: False with another C library, or where the environment configures
        malloc itself (`MALLOC_...`, `GLIBC_TUNABLES`).
    """
    configured = any(name.startswith("MALLOC_") for name in os.environ)
    if configured or "GLIBC_TUNABLES" in os.environ or platform.libc_ver()[0] != "glibc":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    # -1: never trim. Either call ends the adaptation of both thresholds, so both are made.
    return bool(mallopt(_M_MMAP_THRESHOLD, _MAX_MMAP_THRESHOLD) and mallopt(_M_TRIM_THRESHOLD, -1))
