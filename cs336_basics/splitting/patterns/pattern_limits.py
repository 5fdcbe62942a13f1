"""Limits on regular expressions, so that compiling one takes at most one second and 200 MB.

Patterns may come from untrusted files. The `regex` module copies each repeated part, so compiling
`(((a{500}){500}){500})` takes gigabytes, and so does `(((a)+)+)+` with 22 levels of nesting.
"""

from __future__ import annotations

import math
import re

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr

MAX_LENGTH = 10_000
"""Maximum number of characters in a pattern."""

MAX_REPEAT = 1000
"""Highest number in the braces of a repetition, in a pattern that is compiled to a table."""

MAX_DEPTH = 50
"""Maximum depth of nested groups."""

MAX_SIZE = 200_000
"""Maximum number of characters and sets in a pattern with all repetitions written out. `+` counts
as two copies and `{n}` as 2n, because even `{2}` within `{2}` quadruples the compile time."""

# Only the lower limit of a repetition creates copies: `a{2,9}` becomes `aa` and a loop.
_REPEAT = re.compile(r"(?:\+|\{(\d+)(?:(,)(\d*))?\})[+?]?")
# Syntax that `_size_and_depth` cannot handle: comments, and flags for whitespace and nested sets.
_OTHER_SYNTAX = re.compile(r"\(\?(?:#|[A-Za-z0-9-]*[xV])")
_RECURSION = re.compile(r"\(\?(?:R|\d|&|P>)")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|\[:[^]]*:\]|[^]\\])*\]", re.DOTALL)


def check_length(pattern: str, most: int = MAX_LENGTH) -> None:
    """Raise ValueError if a pattern has more than `most` characters."""
    if len(pattern) > most:
        raise InputError(
            f"must have at most {most:,} characters, got {len(pattern):,}", argument="pattern"
        )


def check_limits(pattern: str) -> None:
    """Reject a regular expression that would take too much time or memory to compile.

    Recursion is always rejected, both `(?R)` and calls to groups. Recursion that consumes no text
    exhausts memory, and no simple rule identifies it.

    Raises:
        ValueError: If the expression is too long, is nested too deeply, is recursive, or repeats
            too much.
    """
    check_length(pattern)
    if _RECURSION.search(pattern):
        raise InputError(
            f"{short_repr(pattern)} must not be recursive",
            argument="pattern",
            remedy="write out (?R) and calls to groups",
        )
    if _OTHER_SYNTAX.search(pattern):
        size, depth = _size_bound(pattern), pattern.count("(")
    else:
        size, depth = _size_and_depth(pattern)
    if depth > MAX_DEPTH:
        raise InputError(
            f"{short_repr(pattern)} must not nest groups more than {MAX_DEPTH} deep",
            argument="pattern",
        )
    if size > MAX_SIZE:
        raise InputError(
            f"{short_repr(pattern)} repeats too much",
            argument="pattern",
            remedy="use smaller numbers in {} or fewer nested repetitions",
        )


def _factor(repeat: re.Match[str]) -> int:
    """Return the factor by which a repetition multiplies the cost."""
    least, comma, most = repeat.groups()
    if least is None:
        return 2  # +
    # Python refuses to convert thousands of digits to an integer.
    count = int(least) if len(least) < 20 else 10**20
    is_once = count == 1 and (not comma or most == "1")
    return 1 if count == 0 or is_once else 2 * count


def _size_bound(pattern: str) -> int:
    """Return an upper bound on the size of a pattern in any syntax.

    The bound is the size that the pattern would have if all repetitions of groups were nested.
    Whitespace is allowed between the closing parenthesis of a group and its quantifier.
    """
    of_groups, of_others = [1], [1]
    for found in _REPEAT.finditer(pattern):
        before = pattern[found.start() - 1 : found.start()]
        follows_group = before == ")" or before.isspace()
        (of_groups if follows_group else of_others).append(_factor(found))
    return len(pattern) * math.prod(of_groups) * max(of_others)


def _size_and_depth(pattern: str) -> tuple[int, int]:
    """Return the size of a pattern, as defined for MAX_SIZE, and the depth of its groups."""
    sizes = [0]  # size so far of the pattern and of each open group
    item = depth = i = 0  # item: size of the item before the current position
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
