"""Find special tokens. If several overlap, the leftmost wins; at the same offset, the longest wins.

The tokens and the text must be either all str or all bytes. The search finds the first character of
a token and looks up the whole token in a set, so its time does not grow with the number of tokens.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any

from cs336_basics._support.errors import InputError


class TokenFinder:
    """Finds tokens in text.

    Args:
        tokens: Nonempty tuple of tokens.

    Attributes:
        longest: Length of the longest token.

    Raises:
        ValueError: If a token is empty.
    """

    def __init__(self, tokens: tuple[Any, ...]) -> None:
        if not all(tokens):
            raise InputError(
                "must not contain the empty string, which matches everywhere",
                argument="special_tokens",
            )
        self.longest = max(map(len, tokens))
        self._tokens = frozenset(tokens)
        lengths: dict[Any, set[int]] = {}
        for token in tokens:
            lengths.setdefault(token[:1], set()).add(len(token))
        # First character -> lengths of the tokens that start with it, longest first.
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}
        bar: Any = "|" if isinstance(tokens[0], str) else b"|"
        self._find_first: re.Pattern[Any] = re.compile(bar.join(map(re.escape, lengths)))

    def search(self, text: Any, start: int) -> tuple[int, int] | None:
        """Return `(start, end)` of the first token at or after `start`, or None.

        If several tokens start at the same offset, the longest is returned.
        """
        for found in self._find_first.finditer(text, start):
            if end := self._end_at(text, found.start()):
                return found.start(), end
        return None

    def uncrossed(self, text: Any, cuts: Iterable[int]) -> Iterator[int]:
        """Yield the ascending `cuts` that no occurrence of a token crosses.

        An occurrence crosses a cut if it starts before the cut and ends after it.
        """
        offset = reach = 0  # the tokens that start before `offset` end at `reach` or earlier
        for cut in cuts:
            for found in self._find_first.finditer(text, max(offset, cut - self.longest + 1), cut):
                reach = max(reach, self._end_at(text, found.start()))
            offset = cut
            if reach <= cut:
                yield cut

    def occurrences(self, text: Any) -> Iterator[tuple[int, int]]:
        """Yield `(start, end)` of each token from left to right, without overlaps."""
        end = 0
        while found := self.search(text, end):
            yield found
            end = found[1]

    def _end_at(self, text: Any, start: int) -> int:
        """Return the end of the longest token at `start`, or 0 if there is none."""
        for length in self._lengths[text[start : start + 1]]:
            if (found := text[start : start + length]) in self._tokens:
                return start + len(found)
        return 0


token_finder = functools.lru_cache(maxsize=32)(TokenFinder)
"""Returns a cached TokenFinder."""
