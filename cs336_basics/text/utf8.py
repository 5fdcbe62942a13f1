"""Detect and replace invalid UTF-8.

Invalid sequences are the same as in Python's decoder (Unicode Standard, section 3.9, "U+FFFD
Substitution of Maximal Subparts"). The Python functions are the reference. If the extensions are
built, compiled versions replace these functions and are at least ten times as fast.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from cs336_basics._support.arguments import check_choice

ERRORS = ("replace", "strict")
"""Ways to handle invalid UTF-8: read it as U+FFFD, or reject it."""

ENCODING_ERRORS = (*ERRORS, "bytes")
"""ERRORS plus `"bytes"`, for encoding only: preserve invalid bytes as tokens (`exact_bytes.py`)."""

UTF8_BYTES = frozenset(range(256)) - {0xC0, 0xC1, *range(0xF5, 0x100)}
"""The bytes that occur in valid UTF-8. GPT-NeoX's vocabulary, for example, has no others."""

_INVALID = re.compile("[\udc80-\udcff]+")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def check_errors(errors: str, allowed: Sequence[str] = ERRORS) -> None:
    """Raise ValueError if `errors` is not one of the allowed values."""
    is_elsewhere = isinstance(errors, str) and errors in ENCODING_ERRORS
    note = f" ({errors} is for encoding only)" if is_elsewhere else ""
    check_choice("errors", errors, allowed, note)


def is_valid_utf8_in_python(data: bytes) -> bool:
    """Return whether `data` is valid UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def count_invalid_in_python(data: bytes) -> tuple[int, int, int]:
    """Count the invalid sequences.

    Returns:
        Number of sequences, total number of bytes in them, and offset of the first sequence, or
        `len(data)` if there is none.
    """
    text = data.decode("utf-8", "replace")
    # Valid occurrences of U+FFFD (EF BF BD) do not overlap with invalid sequences.
    sequences = text.count(_REPLACEMENT) - data.count(_REPLACEMENT.encode())
    num_bytes = len(data) - (len(text.encode()) - 3 * sequences)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return sequences, num_bytes, error.start
    return 0, 0, len(data)


def replace_invalid_in_python(data: bytes) -> bytes:
    """Replace each invalid sequence with U+FFFD."""
    return data.decode("utf-8", "replace").encode()


def text_and_bytes_in_python(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield `(text, invalid bytes)` from left to right. Joining all parts restores `data`."""
    text = data.decode("utf-8", "surrogateescape")
    start = 0
    for match in _INVALID.finditer(text):
        invalid = match.group().encode("utf-8", "surrogateescape")
        yield text[start : match.start()].encode(), invalid
        start = match.end()
    if start < len(text):
        yield text[start:].encode(), b""


_LONE_SURROGATE = re.compile(
    "[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]"
)


def lone_surrogate(text: str) -> int | None:
    """Return the index of the first surrogate in a str that is not half of a pair, or None."""
    found = _LONE_SURROGATE.search(text)
    return None if found is None else found.start()


def joined_surrogates(text: str, errors: str = "surrogatepass") -> str:
    """Return a str with each surrogate pair replaced by the character that it stands for.

    Args:
        text: A str. UTF-16 stores a character above U+FFFF as a pair, and some programs pass it on
            like this, such as `"\\ud83d\\ude00"` in JSON that was decoded in parts.
        errors: What happens to lone surrogates; `"replace"` replaces them with U+FFFD.
    """
    # Not `text.encode`, which a subclass may change.
    return str.encode(text, "utf-16-le", "surrogatepass").decode("utf-16-le", errors)


try:
    from cs336_basics.text._utf8 import (
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

__all__ = [
    "count_invalid",
    "is_valid_utf8",
    "joined_surrogates",
    "lone_surrogate",
    "replace_invalid",
    "text_and_bytes",
]
