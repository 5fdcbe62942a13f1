"""Named split patterns compiled with Python's `re`, for use without the `regex` module.

Pyodide, which runs the library in a browser, has no `regex` module.
"""

from __future__ import annotations

import re

from cs336_basics.splitting.patterns.char_sets import CharSet
from cs336_basics.splitting.patterns.pattern_syntax import (
    Chars,
    Choice,
    Next,
    Node,
    Repeat,
    Sequence,
    parse,
)


def re_pattern(expression: str) -> re.Pattern[str]:
    """Compile a split pattern for `re`, with the Unicode properties from `unicode_sets.txt`.

    Raises:
        UnsupportedPatternError: If `pattern_syntax` cannot parse the pattern.
    """
    return re.compile(_translated(parse(expression)))


def _translated(node: Node) -> str:
    if isinstance(node, Chars):
        return _char_class(node.members)
    if isinstance(node, Sequence):
        return "".join(map(_translated, node.items))
    if isinstance(node, Choice):
        return f"(?:{'|'.join(map(_translated, node.options))})"
    if isinstance(node, Repeat):
        most = "" if node.most is None else node.most
        lazy = "" if node.greedy else "?"
        return f"(?:{_translated(node.item)}){{{node.least},{most}}}{lazy}"
    assert isinstance(node, Next)
    options = [_char_class(node.members)]
    options += [r"\Z"] if node.end else []
    options += [r"\n\Z"] if node.last_line_feed else []
    return f"(?={'|'.join(options)})"


def _char_class(members: CharSet) -> str:
    bounds = members.bounds
    ranges = zip(bounds[::2], bounds[1::2], strict=True)
    inside = "".join(f"\\U{first:08x}-\\U{end - 1:08x}" for first, end in ranges)
    return f"[{inside}]" if inside else "(?!)"
