"""Bytes that are not valid UTF-8: found, replaced, and told apart from text.

Which bytes these are is what Python's decoder says (the Unicode Standard, section 3.9, "U+FFFD
Substitution of Maximal Subparts"). The functions here define that; where the package is built,
compiled ones take their place, ten times as fast and more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_INVALID = re.compile("[\udc80-\udcff]+")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def is_valid_utf8_in_python(data: bytes) -> bool:
    """Tell whether bytes are valid UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def count_invalid_in_python(data: bytes) -> tuple[int, int, int]:
    """Count the invalid sequences of bytes.

    Returns:
        Their number; the number of their bytes; and the offset of the first one, the length of the
        data where there is none.
    """
    text = data.decode("utf-8", "replace")
    # U+FFFD in the text itself is EF BF BD, which no invalid sequence overlaps.
    sequences = text.count(_REPLACEMENT) - data.count(_REPLACEMENT.encode())
    num_bytes = len(data) - (len(text.encode()) - 3 * sequences)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return sequences, num_bytes, error.start
    return 0, 0, len(data)


def replace_invalid_in_python(data: bytes) -> bytes:
    """Replace every invalid sequence of bytes by U+FFFD."""
    return data.decode("utf-8", "replace").encode()


def text_and_bytes_in_python(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield (text, invalid bytes) from left to right: joined, they are the data."""
    text = data.decode("utf-8", "surrogateescape")
    start = 0
    for match in _INVALID.finditer(text):
        invalid = match.group().encode("utf-8", "surrogateescape")
        yield text[start : match.start()].encode(), invalid
        start = match.end()
    if start < len(text):
        yield text[start:].encode(), b""


try:
    from cs336_basics.pretokenization._scanner import (
        count_invalid,
        is_valid_utf8,
        replace_invalid,
        text_and_bytes,
    )
except ImportError:  # not built
    count_invalid = count_invalid_in_python
    is_valid_utf8 = is_valid_utf8_in_python
    replace_invalid = replace_invalid_in_python
    text_and_bytes = text_and_bytes_in_python

__all__ = ["count_invalid", "is_valid_utf8", "replace_invalid", "text_and_bytes"]
