"""Printable forms of tokens, with whitespace, invisible characters and stray bytes marked."""

from __future__ import annotations

import itertools
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
