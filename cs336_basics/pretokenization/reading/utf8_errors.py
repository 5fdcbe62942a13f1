"""Errors for invalid UTF-8."""

from __future__ import annotations

import os

from cs336_basics.pretokenization.reading.encodings import check_beginning
from cs336_basics.pretokenization.reading.utf8 import count_invalid, is_valid_utf8, replace_invalid


def invalid_utf8_error(where: str | os.PathLike[str] | None, byte: int, offset: int) -> ValueError:
    """Return the `errors="strict"` error for the first invalid byte in a file or text.

    `where` is None for text in memory.
    """
    prefix = "" if where is None else f"{os.fspath(where)}: "
    return ValueError(
        f"{prefix}byte {byte:#04x} at offset {offset:,} is not valid UTF-8; "
        'pass errors="replace" to read such bytes as U+FFFD'
    )


def checked_utf8(
    data: bytes, errors: str, *, where: str | os.PathLike[str] | None = None, start: int = 0
) -> bytes:
    """Check bytes and return them as valid UTF-8.

    Args:
        data: Bytes to check.
        errors: `"replace"` replaces invalid sequences with U+FFFD; `"strict"` rejects them.
        where: File name or description of the text, for the message.
        start: Offset of `data` in the file or text.

    Raises:
        ValueError: If the text starts with the byte order mark of UTF-16 or UTF-32, or if `errors`
            is "strict" and `data` is not valid UTF-8.
    """
    if is_valid_utf8(data):
        return data
    if start == 0:
        check_beginning(data, "the text" if where is None else os.fspath(where))
    if errors == "strict":
        _, _, offset = count_invalid(data)
        raise invalid_utf8_error(where, data[offset], start + offset)
    return replace_invalid(data)
