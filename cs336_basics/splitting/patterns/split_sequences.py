"""Sequences of splits: split patterns that one regular expression cannot express.

The first split divides a text into pieces, the second divides each of these pieces, and so on. A
sequence is written as one string, so that it can be used wherever a pattern can:

    {"splits": [["[0-9]+", "Isolated", false], ["\\\\s+", "MergedWithNext", false]]}

Each split is a regular expression, a behavior and whether the matches are inverted. The behaviors
are those of Hugging Face's tokenizers (`tokenizer/normalizer.rs`).

This module applies the splits one after another. `composition.py` compiles them into one table; a
test compares the two.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr

if TYPE_CHECKING:
    import regex

MAX_SPLITS = 20
"""Maximum number of splits in a sequence."""

MAX_SEQUENCE_LENGTH = 50_000
"""Maximum number of characters in the string of a sequence."""

BEHAVIORS = ("Isolated", "Contiguous", "MergedWithPrevious", "MergedWithNext")

_START = '{"splits": '

Span = tuple[int, int]


class Split(NamedTuple):
    """One split of a sequence."""

    expression: str
    """Regular expression for the `regex` module."""
    behavior: str = "Isolated"
    """What becomes a piece. `Isolated`: each match, and the text between two matches.
    `Contiguous`: adjacent matches together. `MergedWithPrevious`, `MergedWithNext`: a match with
    the text before or after it."""
    invert: bool = False
    """Whether the text between matches counts as the match, and the reverse."""


def sequence_pattern(splits: Sequence[Split]) -> str:
    """Return the string of a sequence."""
    return _START + json.dumps(splits, ensure_ascii=False) + "}"


def is_sequence(pattern: str) -> bool:
    """Return whether a pattern is the string of a sequence."""
    return pattern.startswith(_START)


def splits_of(pattern: str) -> list[Split]:
    """Return the splits of a sequence. This is the inverse of `sequence_pattern`.

    Raises:
        ValueError: If the string is malformed. The expressions are not checked.
    """
    if len(pattern) > MAX_SEQUENCE_LENGTH:
        raise InputError(
            f"must have at most {MAX_SEQUENCE_LENGTH:,} characters, got {len(pattern):,}",
            argument="pattern",
        )
    try:
        content: Any = json.loads(pattern)["splits"]
        splits = [Split(*item) for item in content]
    except (ValueError, KeyError, TypeError, RecursionError):
        splits = []
    if not 0 < len(splits) <= MAX_SPLITS or not all(map(_is_split, splits)):
        raise InputError(
            f"must contain 1 to {MAX_SPLITS} splits [expression, behavior, invert], got "
            f"{short_repr(pattern)}; the behaviors are {', '.join(BEHAVIORS)}",
            argument="pattern",
        )
    return splits


def _is_split(split: Split) -> bool:
    return (
        isinstance(split.expression, str)
        and not is_sequence(split.expression)
        and split.behavior in BEHAVIORS
        and isinstance(split.invert, bool)
    )


class Piece(NamedTuple):
    """A piece of a text, with the methods of a match."""

    text: str
    first: int
    last: int

    def start(self) -> int:
        """Return the start, in characters."""
        return self.first

    def end(self) -> int:
        """Return the end, in characters."""
        return self.last

    def span(self) -> Span:
        """Return the start and the end."""
        return self.first, self.last

    def group(self) -> str:
        """Return the text of the piece."""
        return self.text[self.first : self.last]


class SplitSequence:
    """A sequence with the methods of a compiled regular expression that `pretokenize` needs."""

    flags = 0

    def __init__(self, pattern: str, compiled: Callable[[str], regex.Pattern[str]]) -> None:
        self._splits = [
            (compiled(split.expression), split.behavior, split.invert)
            for split in splits_of(pattern)
        ]

    def fullmatch(self, text: str, timeout: float | None = None) -> None:
        """Return None: no piece is empty."""

    def finditer(self, text: str, timeout: float | None = None) -> Iterator[Piece]:
        """Yield the pieces of a text from left to right. They cover the text.

        Raises:
            TimeoutError: If finding the matches takes more than `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        spans = [(0, len(text))] if text else []
        for compiled, behavior, invert in self._splits:
            found: list[Span] = []
            for start, end in spans:
                left = None if deadline is None else max(0.001, deadline - time.monotonic())
                parts = _parts(compiled, text[start:end], invert, left)
                found += [(start + first, start + last) for first, last in _JOINED[behavior](parts)]
            spans = found
        return (Piece(text, start, end) for start, end in spans)


class _Part(NamedTuple):
    """A match, or the text between two matches."""

    start: int
    end: int
    is_match: bool


def _parts(
    compiled: regex.Pattern[str], text: str, invert: bool, timeout: float | None
) -> list[_Part]:
    parts: list[_Part] = []
    end = 0
    for match in compiled.finditer(text, timeout=timeout):
        if match.start() > end:
            parts.append(_Part(end, match.start(), invert))
        parts.append(_Part(match.start(), match.end(), not invert))
        end = match.end()
    if end < len(text):
        parts.append(_Part(end, len(text), invert))
    return parts


def _isolated(parts: list[_Part]) -> list[Span]:
    return [(part.start, part.end) for part in parts]


def _contiguous(parts: list[_Part]) -> list[Span]:
    spans: list[Span] = []
    was_match = False
    for part in parts:
        if part.is_match == was_match and spans:
            spans[-1] = (spans[-1][0], part.end)
        else:
            spans.append((part.start, part.end))
        was_match = part.is_match
    return spans


def _merged_with_previous(parts: list[_Part]) -> list[Span]:
    spans: list[Span] = []
    was_match = False
    for part in parts:
        if part.is_match and not was_match and spans:
            spans[-1] = (spans[-1][0], part.end)
        else:
            spans.append((part.start, part.end))
        was_match = part.is_match
    return spans


def _merged_with_next(parts: list[_Part]) -> list[Span]:
    spans: list[Span] = []
    was_match = False
    for part in reversed(parts):
        if part.is_match and not was_match and spans:
            spans[-1] = (part.start, spans[-1][1])
        else:
            spans.append((part.start, part.end))
        was_match = part.is_match
    return spans[::-1]


_JOINED: dict[str, Callable[[list[_Part]], list[Span]]] = {
    "Isolated": _isolated,
    "Contiguous": _contiguous,
    "MergedWithPrevious": _merged_with_previous,
    "MergedWithNext": _merged_with_next,
}
