"""Values and errors as text that is short enough for a message of one line."""

from __future__ import annotations

import reprlib

_LONGEST_VALUE = 100
_LONGEST_REASON = 300


def short_repr(value: object, longest: int = _LONGEST_VALUE) -> str:
    """Return `repr(value)` in one line, cut to `longest` characters.

    Bad input may hold anything: a string of megabytes, or lists that share their elements, whose
    whole representation grows exponentially with their depth. So time and memory are bounded, too.
    """
    if isinstance(value, (bytes, bytearray)):
        value = value[: longest + 1]
    shortener = reprlib.Repr()
    shortener.maxlevel = 3
    shortener.maxstring = shortener.maxlong = shortener.maxother = longest
    try:
        text = shortener.repr(value)
    except ValueError:  # Python refuses to write an integer of thousands of digits
        text = f"<{type(value).__name__} that is too long to show>"
    text = " ".join(line.strip() for line in text.split("\n"))  # arrays have lines
    return text if len(text) <= longest else text[: longest - 3] + "..."


def short_reason(error: BaseException) -> str:
    """Return the message of an error as one line of limited length, or its type if it has none."""
    text = " ".join(str(error)[: 10 * _LONGEST_REASON].split()) or type(error).__name__
    return text if len(text) <= _LONGEST_REASON else text[: _LONGEST_REASON - 3] + "..."
