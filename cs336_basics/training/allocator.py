"""Configuration of the C library's memory allocator, which also serves CPU tensors."""

from __future__ import annotations

import ctypes
import os
import platform

# Parameters of mallopt (malloc.h), and the largest mmap threshold that it accepts.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_MAX_MMAP_THRESHOLD = 4 * 2**20 * ctypes.sizeof(ctypes.c_long)


def keep_freed_memory() -> None:
    """Make glibc's malloc keep freed memory instead of returning it to the system.

    A training step frees hundreds of megabytes, and the next step allocates them again. Without
    this setting, the kernel would have to clear and map the pages again (benchmarks/NOTES.md). The
    drawback is that the process stays at its peak size. The setting affects the whole process, so
    call this function from a command, not from a library. It does nothing if the environment
    configures malloc (`MALLOC_...`, `GLIBC_TUNABLES`).
    """
    configured = any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ)
    if platform.libc_ver()[0] == "glibc" and not configured:
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _MAX_MMAP_THRESHOLD)
        mallopt(_M_TRIM_THRESHOLD, -1)
