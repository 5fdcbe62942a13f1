"""Tokens and text from files in a form that is safe to show, in a terminal and in Markdown."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

BLANKS = {" ": "·", "\t": "→", "\n": "↵", "\r": "␍"}
"""Visible marks for whitespace."""


def visible(token: bytes) -> str:
    """Return a token as printable text.

    >>> print(visible(b" na\\xc3\\xafve\\n"), visible(b"\\xf0\\x9f"), visible(b"\\x1b"))
    ·naïve↵ <f0><9f> <U+001B>
    """
    return "".join(text for text, _ in visible_parts(token))


def visible_parts(token: bytes) -> Iterator[tuple[str, str]]:
    """Yield the parts of a token as pairs of printable text and kind.

    The kinds are "text"; "blank", for marks of whitespace; "code", for unprintable characters,
    such as `<U+202E>`; and "byte", for bytes that are not valid UTF-8, such as `<f0>`.
    """
    characters = map(_visible, token.decode("utf-8", "surrogateescape"))
    for kind, parts in itertools.groupby(characters, key=lambda part: part[1]):
        yield "".join(text for text, _ in parts), kind


def _visible(character: str) -> tuple[str, str]:
    if character in BLANKS:
        return BLANKS[character], "blank"
    if "\udc80" <= character <= "\udcff":
        return f"<{ord(character) - 0xDC00:02x}>", "byte"
    if not character.isprintable():  # terminals interpret some of these characters
        return f"<U+{ord(character):04X}>", "code"
    return character, "text"


# Control characters, except for tab and line feed, and characters that reorder the text after them.
# Joiners and other invisible characters stay, because emoji and many languages need them.
_MARKS_OF_CONTROLS = {
    code: _visible(chr(code))[0]
    for first, last in (
        (0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F), (0x061C, 0x061C), (0x200E, 0x200F),
        (0x2028, 0x202E), (0x2066, 0x2069),
    )
    for code in range(first, last + 1)
}  # fmt: skip

_ESCAPED_IN_MARKDOWN = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]<>&|~#@"})


def code_points(text: str, most: int = 8) -> str:
    """Return the code points of a text, such as `U+0065 U+0301`, or of its first characters."""
    shown = " ".join(f"U+{ord(character):04X}" for character in text[:most])
    return f"{shown} ..." if len(text) > most else shown


def without_controls(text: str) -> str:
    """Return text with marks in place of characters that would control a terminal.

    >>> print(without_controls("a\\x1b[31mb\\n"), end="")
    a<U+001B>[31mb
    """
    return text.translate(_MARKS_OF_CONTROLS)


def markdown_code(text: str) -> str:
    """Return text on one line as a code span, where Markdown and HTML have no effect."""
    text = " ".join(without_controls(text).split())
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}".replace("|", "\\|")


def markdown_text(text: str) -> str:
    """Return text on one line, with Markdown and HTML escaped.

    >>> print(markdown_text("my<img src=x>"))
    my\\<img src=x\\>
    """
    return " ".join(without_controls(text).split()).translate(_ESCAPED_IN_MARKDOWN)
