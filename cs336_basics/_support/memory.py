"""Peak memory of this process, and MemoryErrors that describe the data in memory."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def holding(describe: Callable[[], str]) -> Iterator[None]:
    """Add a description of the data in memory to a MemoryError from the `with` block.

    If blocks are nested, the innermost block's description is used.

    Args:
        describe: Function that returns the description, such as "5 words". It is called only if a
            MemoryError occurs.
    """
    try:
        yield
    except MemoryError as error:
        if isinstance(error, _DescribedError):
            raise
        reason = str(error).removeprefix("std::bad_alloc")
        found = f"out of memory while holding {describe()}"
        raise _DescribedError(f"{found}: {reason}" if reason else found) from error


class _DescribedError(MemoryError):
    """A MemoryError that already describes the data in memory."""


def peak_memory() -> int | None:
    """Return the peak memory of this process in bytes, or None on Windows."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
