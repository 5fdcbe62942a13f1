"""Errors for invalid UTF-8."""

from __future__ import annotations

import os


def invalid_utf8_error(where: str | os.PathLike[str] | None, byte: int, offset: int) -> ValueError:
    """Return the `errors="strict"` error for the first invalid byte in a file or text.

    `where` is None for text in memory.
    """
    prefix = "" if where is None else f"{os.fspath(where)}: "
    return ValueError(
        f"{prefix}byte {byte:#04x} at offset {offset:,} is not valid UTF-8; "
        'pass errors="replace" to read such bytes as U+FFFD'
    )
