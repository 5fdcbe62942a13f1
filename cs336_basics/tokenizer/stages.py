"""Stages: what happens to a text before it is split, if it is more than cutting out tokens.

1. Added tokens that are not `normalized` are found in the original text.
2. The pieces between them are normalized.
3. Added tokens that are `normalized` are found in these pieces.
4. A space is put before each remaining piece that starts with none, if the split pattern says so
   (`PREFIX`).

Hugging Face's tokenizers do the same (`added_vocabulary.rs`). Each search goes from left to right;
at the same position, the longest token wins. `reference.py` has a plainer version.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from cs336_basics._support.lazy import LazyModule
from cs336_basics.splitting.safe_cuts import SafeCuts, SpaceCuts
from cs336_basics.splitting.splitter import Splitter
from cs336_basics.splitting.token_finder import token_finder
from cs336_basics.text.normalization import (
    changed_runs,
    doubtful_runs,
    is_normalized,
    normalized,
    normalized_with_offsets,
)
from cs336_basics.tokenizer.added_tokens import AddedToken
from cs336_basics.tokenizer.definition import TokenizerDefinition

try:
    from cs336_basics.splitting._scanner import TokenSearch
except ImportError:  # not built
    TokenSearch = None  # type: ignore[assignment, misc]

if TYPE_CHECKING:
    import regex
else:  # needed only by `single_word`
    regex = LazyModule("regex")

_WHITESPACE = frozenset(
    character.encode()
    for character in "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007"
    "\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""The Unicode property White_Space, which is not what `str.isspace` checks, as UTF-8."""

_MAYBE_WHITESPACE = re.compile(b"(?:" + b"|".join(sorted(_WHITESPACE)) + b")*")


class Part(NamedTuple):
    """A part of a text: an added token, or a normalized piece without tokens of its stage."""

    start: int
    """Position of the part in the original text."""
    stop: int
    text: str
    token_id: int | None
    """Id of the added token, or None for a piece."""
    origins: list[int] | None
    """For a piece, the position of each character's origin in the original text. None means
    `start`, `start + 1`, ..."""


class AddedTokenFinder:
    """Finds added tokens in UTF-8, in one stage.

    Args:
        tokens: Nonempty mapping from each text to search for to its token and its id.
    """

    def __init__(self, tokens: Mapping[str, tuple[AddedToken, int]]) -> None:
        self._tokens = {content.encode(): entry for content, entry in tokens.items()}
        contents = tuple(self._tokens)
        self._finder = token_finder(contents) if TokenSearch is None else TokenSearch([*contents])

    def parts(self, text: bytes) -> Iterator[tuple[int, int, int | None]]:
        """Yield the start, the end and the id of each token, and with None what is between them.

        A token that includes the whitespace after it may overlap with the next one.
        """
        end = blank_end = 0
        for start, stop in self._finder.occurrences(text):
            token, token_id = self._tokens[text[start:stop]]
            if token.single_word and not _is_single_word(text, start, stop):
                continue
            if token.lstrip:
                start = max(_start_of_whitespace(text, start, end), end)
            if token.rstrip:
                if stop > blank_end:
                    blank_end = _MAYBE_WHITESPACE.match(text, stop).end()  # type: ignore[union-attr]
                stop = max(stop, blank_end)
            if end < start:
                yield end, start, None
            if start < stop:  # else it is part of the whitespace of the token before it
                yield start, stop, token_id
            end = stop
        if end < len(text):
            yield end, len(text), None


def _start_of_whitespace(text: bytes, stop: int, end: int) -> int:
    """Return the start of the whitespace that ends at `stop`, but not before `end`."""
    while stop > end:
        length = next((n for n in (1, 2, 3) if text[max(0, stop - n) : stop] in _WHITESPACE), 0)
        if not length:
            break
        stop -= length
    return stop


def _is_single_word(text: bytes, start: int, stop: int) -> bool:
    """Return whether no word character is directly before or after a token."""
    before = text[max(0, start - 4) : start].decode("utf-8", "ignore")[-1:]
    after = text[stop : stop + 4].decode("utf-8", "ignore")[:1]
    return not _word_character().search(before + " " + after)


@functools.cache
def _word_character() -> regex.Pattern[str]:
    return regex.compile(r"\w")


class Stages:
    """The stages of a definition.

    Args:
        definition: Definition of the tokenizer.
        found: Contents of the added tokens to find. The others are ordinary text.

    Attributes:
        in_one: Whether, in a normalized text, one search finds all the tokens.
        splitter: `Splitter` that does the same as the stages, before it splits a text, or None if
            there is none.
        doubtful_runs: Function that finds the runs of a text that the normalizer may change.
        rest: Contents of tokens that `parts` does not find, because an ordinary search in the
            pieces finds them: all that are `normalized`, if possible.
    """

    def __init__(self, definition: TokenizerDefinition, found: frozenset[str]) -> None:
        self._definition = definition
        self._normalizer = definition.normalizer
        self.doubtful_runs = doubtful_runs(definition.normalizer)
        tokens = [token for token in definition.added_tokens if token.content in found]
        # If two tokens are the same when normalized, a special one wins, then the first.
        tokens.sort(key=lambda token: not token.special)
        ids = definition.added_ids
        first: dict[str, tuple[AddedToken, int]] = {}
        second: dict[str, tuple[AddedToken, int]] = {}
        for token in tokens:
            entry = token, ids[token.content]
            if token.normalized:
                second.setdefault(normalized(token.content, self._normalizer), entry)
            else:
                first[token.content] = entry
        second_is_plain = all(
            is_plainly_found(token) and token.content == content
            for content, (token, _) in second.items()
        )
        self.in_one = (
            second_is_plain
            and all(is_plainly_found(token) for token, _ in first.values())
            and not (first and second and _may_win(second, first))
            and not definition.adds_space
        )
        contents = [content for content in definition.splitter.special_tokens if content in found]
        self.splitter = None
        if self.in_one and (self._normalizer is None or not second):
            self.splitter = Splitter(definition.pattern, contents, self._normalizer)
        self.rest = frozenset(second if second_is_plain and not definition.adds_space else ())
        self._first = AddedTokenFinder(first) if first else None
        self._second = AddedTokenFinder(second) if second and not self.rest else None

    @classmethod
    def needed_by(cls, definition: TokenizerDefinition) -> Stages | None:
        """Return the stages with all added tokens, or None if one search for tokens is enough."""
        if not definition.has_stages:
            return None
        stages = cls(definition, frozenset(definition.added_ids))
        return None if definition.normalizer is None and stages.in_one else stages

    @functools.cached_property
    def safe_cuts(self) -> SafeCuts | SpaceCuts:
        """Finder of offsets where a text can be cut without changing its ids."""
        if self.splitter is not None:
            return self.splitter.safe_cuts
        return _cuts_between_stages(self._definition)

    def is_normalized(self, text: str | bytes) -> bool:
        """Return whether the normalizer does not change a text, or any part of it."""
        return is_normalized(text, self._normalizer)

    def normalized_text(self, text: str | bytes) -> str | bytes | None:
        """Return a text if it is normalized, else None."""
        return text if is_normalized(text, self._normalizer) else None

    def parts(self, text: bytes) -> list[bytes | int]:
        """Return the normalized pieces of a text and the ids of the tokens between them.

        Texts and pieces are UTF-8.
        """
        parts: list[bytes | int] = []
        adds_space = self._definition.adds_space
        for start, stop, token_id in _parts(self._first, text):
            if token_id is not None:
                parts.append(token_id)
                continue
            piece = normalized(text[start:stop], self._normalizer)
            for begin, end, second_id in _parts(self._second, piece):
                part = piece[begin:end] if second_id is None else second_id
                if adds_space and isinstance(part, bytes) and not part.startswith(b" "):
                    part = b" " + part
                parts.append(part)
        return parts

    def changes(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield the start and the end of each run that the normalizer changes, and its result."""
        if self._normalizer is None:
            return
        position_of = _positions_of_bytes(text)
        for first_byte, last_byte, token_id in _parts(self._first, text.encode()):
            if token_id is None:
                offset = position_of[first_byte]
                piece = text[offset : position_of[last_byte]]
                for start, stop, result in changed_runs(piece, self._normalizer):
                    yield offset + start, offset + stop, result

    def located_parts(self, text: str) -> Iterator[Part]:
        """Yield what `parts` returns, with positions in the original text."""
        position_of = _positions_of_bytes(text)
        for first_byte, last_byte, token_id in _parts(self._first, text.encode()):
            start, stop = position_of[first_byte], position_of[last_byte]
            if token_id is not None:
                yield Part(start, stop, text[start:stop], token_id, None)
                continue
            piece, origins = normalized_with_offsets(text[start:stop], self._normalizer)
            position_in_piece = _positions_of_bytes(piece)
            for begin_byte, end_byte, second_id in _parts(self._second, piece.encode()):
                begin, end = position_in_piece[begin_byte], position_in_piece[end_byte]
                part = piece[begin:end]
                needs_space = (
                    self._definition.adds_space and second_id is None and not part.startswith(" ")
                )
                if origins is None and not needs_space:
                    yield Part(start + begin, start + end, part, second_id, None)
                    continue
                origins_of_part = range(begin, end) if origins is None else origins[begin:end]
                at = [start + origin for origin in origins_of_part]
                if needs_space:
                    # The added space comes from the character after it, as in tokenizers.
                    part, at = " " + part, [at[0], *at]
                yield Part(at[0], at[-1] + 1, part, second_id, at)


def _parts(finder: AddedTokenFinder | None, text: bytes) -> Iterable[tuple[int, int, int | None]]:
    if finder is not None:
        return finder.parts(text)
    return ((0, len(text), None),) if text else ()


def _positions_of_bytes(text: str) -> Sequence[int]:
    """Return the position of the character that contains each byte, and the length of the text."""
    if text.isascii():
        return range(len(text) + 1)
    positions = [i for i, character in enumerate(text) for _ in character.encode()]
    return [*positions, len(text)]


def is_plainly_found(token: AddedToken) -> bool:
    """Return whether a token is found wherever its content is, and includes nothing else."""
    return not (token.lstrip or token.rstrip or token.single_word)


def _may_win(later: Iterable[str], earlier: Iterable[str]) -> bool:
    """Return whether one search for all tokens may prefer one in `later` to one in `earlier`.

    Of two occurrences that overlap, either one starts inside the other, or both start together.
    One search prefers the one that starts first, so it may start inside one in `later`.
    """
    earlier, later = sorted(earlier), sorted(later)
    return (
        _starts_inside(earlier, later)
        or _starts_with(earlier, later)
        or _starts_with(later, earlier)
    )


def _starts_inside(tokens: Iterable[str], others: Iterable[str]) -> bool:
    inside = {character for other in others for character in other[1:]}
    return any(token[0] in inside for token in tokens)


def _starts_with(tokens: Iterable[str], others: list[str]) -> bool:
    """Return whether one of `others`, which are sorted, starts with one of the tokens."""
    for token in tokens:
        i = bisect.bisect_left(others, token)
        if i < len(others) and others[i].startswith(token):
            return True
    return False


def _cuts_between_stages(definition: TokenizerDefinition) -> SpaceCuts:
    """Return a finder of offsets where text can be cut without changing any stage.

    A cut is between a character and whitespace, both ASCII, so that no normalization crosses it and
    no token includes whitespace from the other side. If texts get a space at their start, a cut is
    only before a space.
    """
    inside: set[str] = set()
    last: set[str] = set()
    first: set[str] = set()
    for token in definition.added_tokens:
        for content in {token.content, normalized(token.content, definition.normalizer)}:
            inside.update(map("".join, pairwise(content)))
            if token.rstrip:
                last.add(content[-1])
            if token.single_word:
                first.add(content[0])

    def may_cut(before: str, after: str) -> bool:
        if definition.adds_space and after != " ":
            return False
        return before + after not in inside and before not in last and after not in first

    return SpaceCuts(definition.split_pattern, may_cut)
