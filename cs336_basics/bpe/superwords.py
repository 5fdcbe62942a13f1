"""Superwords: tokens of several words, which the last part of a training run learns (SuperBPE).

Liu et al. 2025, "SuperBPE: Space Travel for Language Models", arXiv 2503.13423.
"""

from __future__ import annotations

from dataclasses import dataclass

from cs336_basics._support.arguments import MAX_INT64, checked_integer
from cs336_basics._support.errors import InputError, Text
from cs336_basics._support.messages import short_repr
from cs336_basics.splitting.patterns.named_patterns import resolve_pattern
from cs336_basics.splitting.patterns.superwords import pattern_of_superwords

MAX_WORDS = 4
"""Default number of words in a superword, as in the paper."""


@dataclass(frozen=True)
class Superwords:
    """How superwords are learned; the fields have the same names in training.json.

    Raises:
        ValueError, TypeError: If a value is invalid.
    """

    superwords_from: int
    """Size of the vocabulary from which on merges may join words."""
    words_pattern: str
    """Split pattern of the words."""
    max_words: int
    """Maximum number of words in a superword."""

    def __post_init__(self) -> None:
        size = checked_integer("superwords_from", self.superwords_from, 1, MAX_INT64)
        object.__setattr__(self, "superwords_from", size)
        checked_integer("max_words", self.max_words, 1, MAX_INT64)
        resolve_pattern(self.words_pattern)

    def pattern(self, given: str | None = None) -> str:
        """Return the split pattern that no superword crosses.

        Args:
            given: Name or regular expression. Defaults to `pattern_of_superwords`.

        Raises:
            ValueError: If it is also the pattern of the words.
        """
        pattern = pattern_of_superwords(self.words_pattern) if given is None else given
        if resolve_pattern(pattern) == resolve_pattern(self.words_pattern):
            raise InputError(
                f"must split text into words, got {short_repr(self.words_pattern)}, which is also "
                "the pattern of the superwords",
                argument="pattern",
                remedy="pass the pattern of the words, such as gpt2",
            )
        return pattern

    def need_text(self, remedy: Text) -> InputError:
        """Return an error for word counts, from which superwords cannot be learned."""
        return InputError(
            f"is {self.superwords_from:,}, but superwords cannot be learned from word counts",
            argument="superwords_from",
            remedy=remedy,
        )
