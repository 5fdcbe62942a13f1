"""Finds special tokens in a text: the leftmost first, and of several that start there the longest.

Tokens and texts are str, or both are bytes.

A regular expression of few tokens is the fastest. It tries one token after the other at every
offset, so that for many tokens a set is used.
"""

from __future__ import annotations

import functools
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

_FEW = 32


@functools.lru_cache(maxsize=32)
def token_finder(tokens: tuple[Any, ...]) -> TokenFinder:
    """Return what finds these tokens, of which there is at least one and none is empty."""
    return _FewTokens(tokens) if len(tokens) <= _FEW else _ManyTokens(tokens)


class TokenFinder(ABC):
    """Finds tokens in a text.

    Attributes:
        longest: the length of the longest token.
    """

    def __init__(self, tokens: tuple[Any, ...]) -> None:
        self.longest = max(map(len, tokens))

    @abstractmethod
    def search(self, text: Any, start: int) -> tuple[int, int] | None:
        """Return where the first token at or after `start` begins and ends, None if there is none.

        Of several tokens that begin there, it is the longest.
        """

    @abstractmethod
    def is_crossed(self, text: Any, cut: int) -> bool:
        """Return whether an occurrence of a token starts before `cut` and ends after it."""

    def occurrences(self, text: Any) -> Iterator[tuple[int, int]]:
        """Yield where each token begins and ends, from left to right, without overlaps."""
        end = 0
        while found := self.search(text, end):
            yield found
            end = found[1]


class _FewTokens(TokenFinder):
    def __init__(self, tokens: tuple[Any, ...]) -> None:
        super().__init__(tokens)
        self._tokens = tokens
        # An alternative that comes first is preferred, so the longest must.
        self._find = _any_of(sorted(tokens, key=len, reverse=True))

    def search(self, text: Any, start: int) -> tuple[int, int] | None:
        found = self._find.search(text, start)
        return found.span() if found else None

    def occurrences(self, text: Any) -> Iterator[tuple[int, int]]:
        return (found.span() for found in self._find.finditer(text))

    def is_crossed(self, text: Any, cut: int) -> bool:
        return any(
            text.find(token, max(0, cut - len(token) + 1), cut + len(token) - 1) >= 0
            for token in self._tokens
        )


class _ManyTokens(TokenFinder):
    def __init__(self, tokens: tuple[Any, ...]) -> None:
        super().__init__(tokens)
        self._tokens = frozenset(tokens)
        lengths: dict[Any, set[int]] = {}
        for token in tokens:
            lengths.setdefault(token[:1], set()).add(len(token))
        # first character -> the lengths of the tokens that begin with it, the greatest first
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}
        self._find_first = _any_of(list(lengths))

    def search(self, text: Any, start: int) -> tuple[int, int] | None:
        while found := self._find_first.search(text, start):
            start = found.start()
            end = self._end_at(text, start)
            if end:
                return start, end
            start += 1
        return None

    def is_crossed(self, text: Any, cut: int) -> bool:
        starts = self._find_first.finditer(text, max(0, cut - self.longest + 1), cut)
        return any(self._end_at(text, found.start()) > cut for found in starts)

    def _end_at(self, text: Any, start: int) -> int:
        """Return where the longest token ends that begins at `start`, 0 if none does."""
        for length in self._lengths[text[start : start + 1]]:
            if (found := text[start : start + length]) in self._tokens:
                return start + len(found)
        return 0


def _any_of(alternatives: list[Any]) -> re.Pattern[Any]:
    """Return the regular expression of some texts, the first ones preferred."""
    bar: Any = "|" if isinstance(alternatives[0], str) else b"|"
    return re.compile(bar.join(map(re.escape, alternatives)))
