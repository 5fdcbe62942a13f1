"""The pattern within which superwords are merged: lines, with numbers split as before."""

from __future__ import annotations

import re

from cs336_basics.splitting.patterns.named_patterns import resolve_pattern

_NUMBERS = re.compile(r"(?P<space> \?)?\\p\{N\}")


def pattern_of_superwords(pattern: str) -> str:
    r"""Return the split pattern for the superwords of a tokenizer (Liu et al. 2025, SuperBPE).

    A pre-token is a line without its end, a line end or a number. Numbers are split as in
    `pattern` if one of its alternatives starts with `\p{N}` or ` ?\p{N}`. Otherwise, they are part
    of a line.

    Args:
        pattern: Split pattern of the words: a name in PATTERNS or a regular expression.

    Raises:
        ValueError, TypeError: See `resolve_pattern`.
    """
    alternatives = resolve_pattern(pattern).split("|")
    for numbers in alternatives:
        found = _NUMBERS.match(numbers)
        if found and found["space"]:  # the number has the space before it
            return rf"{numbers}|[\r\n]+|(?: (?!\p{{N}})|[^\r\n\p{{N}} ])+"
        if found:
            return rf"{numbers}|[\r\n]+|[^\r\n\p{{N}}]+"
    return r"[\r\n]+|[^\r\n]+"
