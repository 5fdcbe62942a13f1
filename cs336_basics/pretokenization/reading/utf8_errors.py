"""Bytes that are not valid UTF-8: refused, or read as U+FFFD."""

from __future__ import annotations

import os

from cs336_basics.pretokenization.reading.encodings import check_beginning
from cs336_basics.pretokenization.reading.utf8 import count_invalid, is_valid_utf8, replace_invalid


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


def checked_utf8(
    data: bytes, errors: str, *, where: str | os.PathLike[str] | None = None, start: int = 0
) -> bytes:
    """Return bytes that are valid UTF-8.

    Args:
        data: any bytes.
        errors: `"replace"` reads bytes that are not UTF-8 as U+FFFD, `"strict"` refuses them.
        where: the file, or another name of the text, for the message.
        start: offset of `data` in that text.

    Raises:
        ValueError: (`"strict"`) a byte that is not UTF-8, with its offset; or the text begins as
            one in UTF-16 or UTF-32 does.
    """
    if is_valid_utf8(data):
        return data
    if start == 0:
        check_beginning(data, "the text" if where is None else os.fspath(where))
    if errors == "strict":
        _, _, offset = count_invalid(data)
        raise invalid_utf8_error(where, data[offset], start + offset)
    return replace_invalid(data)
