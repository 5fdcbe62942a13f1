"""The error for bytes that are not valid UTF-8."""

from __future__ import annotations

import os


def invalid_utf8_error(where: str | os.PathLike[str] | None, byte: int, offset: int) -> ValueError:
    """Return the error for text with errors="strict" that is not valid UTF-8.

    Args:
        where: the file, or another name of the text; None for a text in memory.
        byte: the first byte of the first invalid sequence.
        offset: its offset in bytes from the start of the file or text.
    """
    prefix = "" if where is None else f"{os.fspath(where)}: "
    return ValueError(
        f"{prefix}byte {byte:#04x} at offset {offset:,} is not valid UTF-8; "
        'pass errors="replace" to read such bytes as U+FFFD'
    )
