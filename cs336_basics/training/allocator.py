"""The memory allocator of the C library, which tensors on the CPU come from."""

from __future__ import annotations

import ctypes
import os
import platform

# Parameters of mallopt, from malloc.h, and the greatest threshold for mmap that it accepts.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_MAX_MMAP_THRESHOLD = 4 * 2**20 * ctypes.sizeof(ctypes.c_long)


def keep_freed_memory() -> None:
    """Have glibc's malloc keep memory that is freed, instead of returning it to the system.

    A training step frees hundreds of megabytes, and the next one allocates them again: where they
    were returned, every page is cleared and mapped again (benchmarks/NOTES.md). The process keeps
    what it needed at its peak. It holds for the whole process, so a command may ask for it, not a
    library. Nothing changes where the environment configures malloc (`MALLOC_...`,
    `GLIBC_TUNABLES`).
    """
    configured = any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ)
    if platform.libc_ver()[0] == "glibc" and not configured:
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _MAX_MMAP_THRESHOLD)
        mallopt(_M_TRIM_THRESHOLD, -1)
