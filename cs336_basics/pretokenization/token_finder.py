"""Finds special tokens in a text: the leftmost first, and of several that start there the longest.

Tokens and texts are str, or both are bytes. The first character of a token is searched for; what
follows it is looked up in a set, so that the time does not grow with the number of tokens.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any


@functools.lru_cache(maxsize=32)
def token_finder(tokens: tuple[Any, ...]) -> TokenFinder:
    """Return what finds these tokens, of which there is at least one and none is empty."""
    return TokenFinder(tokens)


class TokenFinder:
    """Finds tokens in a text.

    Attributes:
        longest: the length of the longest token.
    """

    def __init__(self, tokens: tuple[Any, ...]) -> None:
        self.longest = max(map(len, tokens))
        self._tokens = frozenset(tokens)
        lengths: dict[Any, set[int]] = {}
        for token in tokens:
            lengths.setdefault(token[:1], set()).add(len(token))
        # first character -> the lengths of the tokens that begin with it, the greatest first
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}
        bar: Any = "|" if isinstance(tokens[0], str) else b"|"
        self._find_first: re.Pattern[Any] = re.compile(bar.join(map(re.escape, lengths)))

    def search(self, text: Any, start: int) -> tuple[int, int] | None:
        """Return where the first token at or after `start` begins and ends, None if there is none.

        Of several tokens that begin there, it is the longest.
        """
        for found in self._find_first.finditer(text, start):
            if end := self._end_at(text, found.start()):
                return found.start(), end
        return None

    def is_crossed(self, text: Any, cut: int) -> bool:
        """Return whether an occurrence of a token starts before `cut` and ends after it."""
        starts = self._find_first.finditer(text, max(0, cut - self.longest + 1), cut)
        return any(self._end_at(text, found.start()) > cut for found in starts)

    def occurrences(self, text: Any) -> Iterator[tuple[int, int]]:
        """Yield where each token begins and ends, from left to right, without overlaps."""
        end = 0
        while found := self.search(text, end):
            yield found
            end = found[1]

    def _end_at(self, text: Any, start: int) -> int:
        """Return where the longest token ends that begins at `start`, 0 if none does."""
        for length in self._lengths[text[start : start + 1]]:
            if (found := text[start : start + length]) in self._tokens:
                return start + len(found)
        return 0
