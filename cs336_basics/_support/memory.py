"""What a process holds, for the message where memory does not suffice."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def holding(describe: Callable[[], str]) -> Iterator[None]:
    """Within this block, a MemoryError says what was being held; the innermost block counts.

    Args:
        describe: returns what, and how large it is; called only after such an error.
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
    """Says what was being held."""


def peak_memory() -> int | None:
    """Return the most bytes that this process has held in memory; None where it is not known."""
    try:
        import resource
    except ImportError:  # on Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
