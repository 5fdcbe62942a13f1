"""Errors that other libraries raise for damaged files and for text that they cannot encode."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from cs336_basics._support.errors import ReportedError, RunError
from cs336_basics._support.messages import short_reason


@contextlib.contextmanager
def library_errors(problem: str, kind: type[ReportedError] = RunError) -> Iterator[None]:
    """Convert any error of another library to one of `kind`, whose message starts with `problem`.

    Other libraries raise errors of any class, so the body should only call the other library. An
    error in our own code would be hidden.
    """
    try:
        yield
    except (ImportError, OSError, MemoryError):
        raise
    except BaseException as error:
        # A panic in Rust is a BaseException of a class that cannot be imported.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise kind(f"{problem}: {short_reason(error)}") from error
