"""Peak memory of this process."""

from __future__ import annotations

import sys


def peak_memory() -> int | None:
    """Return the peak memory of this process in bytes, or None on Windows."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
