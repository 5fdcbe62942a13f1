"""Limits on regular expressions: compiling one takes at most about a second, and 200 MB.

A pattern may come from someone else's file. The `regex` module copies what is repeated at least
once: compiling `(((a{500}){500}){500})` takes gigabytes, and so does `(((a)+)+)+`, 22 times nested.
"""

from __future__ import annotations

import math
import re

MAX_LENGTH = 10_000
"""Characters of a pattern."""

MAX_DEPTH = 50
"""Groups that are inside of each other."""

MAX_SIZE = 200_000
"""Characters and sets of a pattern with all repetitions written out: `{n}` counts as 2n copies,
since even `{2}` within `{2}` quadruples the time of compiling, and `+` as two."""

# Only the lower limit of a repetition costs copies: `a{2,9}` is aa, then a loop.
_REPEAT = re.compile(r"(?:\+|\{(\d+)(?:(,)(\d*))?\})[+?]?")
# Comments, white space without a meaning, sets within sets: what `_size_and_depth` does not know.
_OTHER_SYNTAX = re.compile(r"\(\?(?:#|[A-Za-z0-9-]*[xV])")
_RECURSION = re.compile(r"\(\?(?:R|\d|&|P>)")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|\[:[^]]*:\]|[^]\\])*\]", re.DOTALL)


def check_limits(pattern: str) -> None:
    """Refuse a regular expression that takes too long or too much memory to compile.

    Recursion, `(?R)` or a call of a group, is refused, too: a recursion that consumes nothing takes
    all memory, and no simple rule tells which one does.

    Raises:
        ValueError: it is too long, nested too deeply, recursive, or repeats too much; says which.
    """
    if len(pattern) > MAX_LENGTH:
        raise ValueError(f"it has {len(pattern):,} characters, more than {MAX_LENGTH:,}")
    if _RECURSION.search(pattern):
        raise ValueError("it is recursive, (?R) or a call of a group: write the group out")
    if _OTHER_SYNTAX.search(pattern):
        size, depth = _greatest_size(pattern), pattern.count("(")
    else:
        size, depth = _size_and_depth(pattern)
    if depth > MAX_DEPTH:
        raise ValueError(f"its groups are nested more than {MAX_DEPTH} deep")
    if size > MAX_SIZE:
        raise ValueError(
            "it repeats too much: use smaller numbers in {}, or fewer repetitions within others"
        )


def _factor(repeat: re.Match[str]) -> int:
    """Return how much a repetition multiplies the cost."""
    least, comma, most = repeat.groups()
    if least is None:
        return 2  # +
    # (Python refuses to read an integer of thousands of digits.)
    count = int(least) if len(least) < 20 else 10**20
    is_once = count == 1 and (not comma or most == "1")
    return 1 if count == 0 or is_once else 2 * count


def _greatest_size(pattern: str) -> int:
    """Return a bound on the size of a pattern of any syntax.

    It is the size if every repetition of a group were inside of the next. A group ends with a
    parenthesis, after which white space or a comment may stand.
    """
    of_groups, of_others = [1], [1]
    for found in _REPEAT.finditer(pattern):
        before = pattern[found.start() - 1 : found.start()]
        follows_group = before == ")" or before.isspace()
        (of_groups if follows_group else of_others).append(_factor(found))
    return len(pattern) * math.prod(of_groups) * max(of_others)


def _size_and_depth(pattern: str) -> tuple[int, int]:
    """Return the size of a pattern as MAX_SIZE counts it, and how deep its groups are nested."""
    sizes = [0]  # of each open group, as far as it was read
    item = depth = i = 0  # item: the size of what comes before the current position
    while i < len(pattern):
        length = 1
        if pattern[i] == "(":
            sizes.append(0)
            depth = max(depth, len(sizes) - 1)
            item = 0
        elif pattern[i] == ")" and len(sizes) > 1:
            item = sizes.pop() + 1
            sizes[-1] += item
        elif found := _REPEAT.match(pattern, i):
            length = len(found.group())
            sizes[-1] += item * (_factor(found) - 1)
            item = 0
        else:
            if pattern[i] == "\\":
                length = 2
            elif found := _CLASS.match(pattern, i):
                length = len(found.group())
            item = 1
            sizes[-1] += 1
        i += length
    return sum(sizes), depth
