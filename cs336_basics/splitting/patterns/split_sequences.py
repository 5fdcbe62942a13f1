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
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics.splitting.patterns.pattern_limits import check_length

if TYPE_CHECKING:
    import regex

NO_SPLIT = r"[\s\S]+"
"""The pattern that does not split text: all of it is one pre-token."""

MAX_SPLITS = 20
"""Maximum number of splits in a sequence."""

MAX_SEQUENCE_LENGTH = 50_000
"""Maximum number of characters in the string of a sequence."""

BEHAVIORS = ("Isolated", "Contiguous", "MergedWithPrevious", "MergedWithNext")
"""Behaviors that keep the text: joining the pieces restores it."""

_START = '{"splits": '

Span = tuple[int, int]


class Split(NamedTuple):
    """One split of a sequence."""

    expression: str
    """Regular expression for the `regex` module."""
    behavior: str = "Isolated"
    """What becomes a piece. `Isolated`: each match, and the text between two matches.
    `Contiguous`: adjacent matches together. `MergedWithPrevious`, `MergedWithNext`: a match with
    the text before or after it. `Removed`: the text between matches; the matches are lost."""
    invert: bool = False
    """Whether the text between matches counts as the match, and the reverse."""


PREFIX = Split(" ", "Prefixed")
"""Not a split: a space is put before each piece that does not start with one."""


def sequence_pattern(splits: Sequence[Split]) -> str:
    """Return the string of a sequence."""
    return _START + json.dumps(splits, ensure_ascii=False) + "}"


def is_sequence(pattern: str) -> bool:
    """Return whether a pattern is the string of a sequence."""
    return pattern.startswith(_START)


def changes_text(pattern: str) -> bool:
    """Return whether the pieces of a pattern may have less text, or more, than was there."""
    return is_sequence(pattern) and any(
        split.behavior not in BEHAVIORS for split in splits_of(pattern)
    )


def without_prefix(pattern: str) -> str:
    """Return a pattern without PREFIX at its start, or the same pattern if it is not there."""
    if not is_sequence(pattern):
        return pattern
    splits = splits_of(pattern)
    return pattern_of_splits(splits[1:]) if splits[0] == PREFIX else pattern


def pattern_of_splits(splits: Sequence[Split]) -> str:
    """Return the shortest pattern for splits: one expression, if it says the same."""
    if not splits:
        return NO_SPLIT
    if len(splits) == 1 and splits[0].behavior == "Isolated":
        return splits[0].expression
    return sequence_pattern(splits)


def splits_of(pattern: str) -> list[Split]:
    """Return the splits of a sequence. This is the inverse of `sequence_pattern`.

    Raises:
        ValueError: If the string is malformed. The expressions are not checked.
    """
    check_length(pattern, MAX_SEQUENCE_LENGTH)
    try:
        content: Any = json.loads(pattern)["splits"]
        splits = [Split(*item) for item in content]
    except (ValueError, KeyError, TypeError, RecursionError):
        splits = []
    if not 0 < len(splits) <= MAX_SPLITS or not all(map(_is_split, splits)):
        raise InputError(
            f"must contain 1 to {MAX_SPLITS} splits [expression, behavior, invert], got "
            f"{short_repr(pattern)}; the behaviors are {', '.join(BEHAVIORS)} and Removed",
            argument="pattern",
        )
    return splits


def _is_split(split: Split) -> bool:
    return split == PREFIX or (
        isinstance(split.expression, str)
        and not is_sequence(split.expression)
        and split.behavior in (*BEHAVIORS, "Removed")
        and isinstance(split.invert, bool)
    )


class Piece(NamedTuple):
    """A piece of a text."""

    text: str
    origins: Sequence[int]
    """The index, in the whole text, of the character that each character comes from. A space that
    was added comes from the character after it."""


class SplitSequence:
    """A compiled sequence.

    It has the attributes of a compiled regular expression that `resolve_pattern` checks.
    """

    flags = 0

    def __init__(self, pattern: str, compiled: Callable[[str], regex.Pattern[str]]) -> None:
        self._splits = [
            (None if split == PREFIX else compiled(split.expression), split.behavior, split.invert)
            for split in splits_of(pattern)
        ]

    def fullmatch(self, text: str, timeout: float | None = None) -> None:
        """Return None: no piece is empty."""

    def pieces(self, text: str, timeout: float | None = None) -> list[Piece]:
        """Return the pieces of a text from left to right.

        Raises:
            TimeoutError: If finding the matches takes more than `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        pieces = [Piece(text, range(len(text)))] if text else []
        for compiled, behavior, invert in self._splits:
            if compiled is None:
                pieces = list(map(_prefixed, pieces))
                continue
            found: list[Piece] = []
            for piece, origins in pieces:
                left = None if deadline is None else max(0.001, deadline - time.monotonic())
                parts = _parts(compiled, piece, invert, left)
                found += (
                    Piece(piece[start:end], origins[start:end])
                    for start, end in _JOINED[behavior](parts)
                )
            pieces = found
        return pieces


def _prefixed(piece: Piece) -> Piece:
    if piece.text.startswith(" "):
        return piece
    return Piece(" " + piece.text, [piece.origins[0], *piece.origins])


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


def _removed(parts: list[_Part]) -> list[Span]:
    return [(part.start, part.end) for part in parts if not part.is_match]


_JOINED: dict[str, Callable[[list[_Part]], list[Span]]] = {
    "Removed": _removed,
    "Isolated": _isolated,
    "Contiguous": _contiguous,
    "MergedWithPrevious": _merged_with_previous,
    "MergedWithNext": _merged_with_next,
}
