"""Short text for values and errors in one-line messages."""

from __future__ import annotations

import itertools
import reprlib
from collections.abc import Iterable

shown_names: dict[str, str] = {}
"""Mapping from temporary files to the names that messages and records show for them."""

_LONGEST_VALUE = 100
_LONGEST_REASON = 300


def short_repr(value: object, longest: int = _LONGEST_VALUE) -> str:
    """Return `repr(value)` on one line, truncated to `longest` characters.

    Time and memory use are also bounded: an invalid value may be a string of several megabytes, or
    nested lists with shared elements, whose full representation grows exponentially with depth.
    """
    if isinstance(value, (bytes, bytearray)):
        value = value[: longest + 1]
    shortener = reprlib.Repr()
    shortener.maxlevel = 3
    shortener.maxstring = shortener.maxlong = shortener.maxother = longest
    try:
        text = shortener.repr(value)
    except ValueError:  # Python refuses to format integers with thousands of digits
        text = f"<{type(value).__name__} too long to show>"
    return _cut(" ".join(line.strip() for line in text.split("\n")), longest)  # arrays span lines


def short_reason(error: BaseException) -> str:
    """Return an error's message on one short line, or its type if it has no message."""
    return _cut(" ".join(str(error)[: 10 * _LONGEST_REASON].split()) or type(error).__name__)


def short_names(names: Iterable[object]) -> str:
    """Return names from a file, separated by commas, on one short line."""
    return _cut(", ".join(itertools.islice(map(shown_name, names), 20)))


def shown_name(name: object) -> str:
    """Return a name from a file, in quotes if parts of it would be invisible or span lines."""
    text = str(name)
    return text if text.isprintable() and text == text.strip() != "" else repr(text)


def _cut(text: str, longest: int = _LONGEST_REASON) -> str:
    return text if len(text) <= longest else text[: longest - 3] + "..."


_JSON_KINDS = {dict: "an object", list: "an array", str: "a string", bool: "a Boolean"}


def json_kind(value: object) -> str:
    """Return the kind of a JSON value as JSON calls it, such as `null` or `an array`."""
    return "null" if value is None else _JSON_KINDS.get(type(value), "a number")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 token` or `2,000 tokens`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


_OTHER_NAMES = {"lr": "learning_rate", "block_size": "context_length", "iters": "steps"}
"""Names of options in other programs, and what they are called here."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'NAME'?` for the nearest known names, or an empty string."""
    import difflib  # needed only for errors

    known = list(known)

    def plain(option: str) -> str:  # users often write d_model for --model.d-model
        return option.lstrip("-").split(".")[-1].replace("-", "_")

    last = _OTHER_NAMES.get(plain(name), plain(name))
    near = [other for other in known if plain(other) == last]
    if not near:  # optimizer for optimizer.kind, the first option of a section
        near = [other for other in known if other.lstrip("-").startswith(f"{last}.")][:1]
    if not near and len(last) > 3:  # learning_rate for max_learning_rate
        near = [other for other in known if last in plain(other)][:3]
    if not near:
        close = difflib.get_close_matches(last, map(plain, known), n=1, cutoff=0.7)
        near = [other for other in known if plain(other) in close][:1]
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
