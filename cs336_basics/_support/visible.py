"""Tokens and text from files in a form that is safe to show, in a terminal and in Markdown."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

# Control characters, except for tab and line feed, and characters that reorder the text after them.
# Joiners and other invisible characters stay, because emoji and many languages need them.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

_MARKDOWN = re.compile(r"([\\`*_\[\]<>&|~#@])")

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


def code_points(text: str, most: int = 8) -> str:
    """Return the code points of a text, such as `U+0065 U+0301`, or of its first characters."""
    shown = " ".join(f"U+{ord(character):04X}" for character in text[:most])
    return f"{shown} ..." if len(text) > most else shown


def without_controls(text: str) -> str:
    """Return text with marks in place of characters that would control a terminal.

    >>> print(without_controls("a\\x1b[31mb\\n"), end="")
    a<U+001B>[31mb
    """
    return _CONTROLS.sub(lambda found: _visible(found[0])[0], text)


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
    return _MARKDOWN.sub(r"\\\1", " ".join(without_controls(text).split()))
