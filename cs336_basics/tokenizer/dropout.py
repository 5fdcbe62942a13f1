"""BPE-dropout: encode a text in one of many ways, as regularization for training.

Provilkov, Emelianenko and Voita 2020, "BPE-Dropout: Simple and Effective Subword Regularization",
algorithm 1: in each step of merging a pre-token, every possible merge is left out with a given
probability, independently and anew in each step. The remaining merge with the lowest rank is
applied. The pre-token is finished when no merge remains in a step. A probability of 0 gives the
usual ids, and a probability of 1 the single bytes.

What is left out of a pre-token depends only on the seed, the number of the document, and the
position of the pre-token in the document, in bytes. Therefore, the ids do not depend on how a text
is divided among workers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cs336_basics._support.arguments import check_is_number, checked_integer
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.messages import short_repr

Place = tuple[int, int]
"""The number of a document, and a number of bytes of the document before a text or pre-token."""

MAX_GAP = 64
"""Maximum number of merges that a single draw decides to keep."""

_RANGE = 1 << 64
_MASK = _RANGE - 1
_STEP = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class Dropout:
    """How to leave out merges.

    Args:
        probability: Probability of leaving out a merge, from 0 to 1. Provilkov et al. use 0.1 for
            alphabets and 0.6 for Chinese and Japanese.
        seed: Seed of the draws, from 0 to 2^64 - 1.
        first_document: Number of the first document. Texts and rows are documents, and so are
            text files. They are numbered in order.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If an argument is out of range.
    """

    probability: float
    seed: int = 0
    first_document: int = 0

    def __post_init__(self) -> None:
        given = self.probability
        check_is_number("dropout", given)
        if not 0 <= given <= 1 or math.isnan(given):
            raise InputError(f"must be from 0 to 1, got {short_repr(given)}", argument="dropout")
        object.__setattr__(self, "probability", float(given))
        for name in ("seed", "first_document"):
            object.__setattr__(self, name, checked_integer(name, getattr(self, name), 0, _MASK))

    @property
    def shares(self) -> list[int]:
        """Probabilities of keeping 0, 1, ..., MAX_GAP merges in a row, times 2^64, in 64 bits."""
        kept = min(_RANGE - int(self.probability * _RANGE), _MASK)
        shares = [_RANGE]
        for _ in range(MAX_GAP):
            shares.append(shares[-1] * kept // _RANGE)
        return [_MASK, *shares[1:]]

    @property
    def state(self) -> int:
        """State of the seed, from which the states of documents are derived."""
        return _mixed(self.seed + _STEP)

    def kept(self, place: Place) -> Iterator[bool]:
        """Yield whether to keep each merge that is visited in a pre-token.

        Each draw gives a gap: the number of merges to keep before the next one that is left out.
        Gaps of MAX_GAP or more are cut, and the rest is drawn anew.

        Args:
            place: Place of the pre-token.
        """
        state, shares = self.state, self.shares
        for number in place:
            state = _mixed((state ^ number) + _STEP)
        while True:
            state += _STEP
            drawn = _mixed(state)
            gap = sum(drawn < share for share in shares[1:])
            yield from [True] * gap
            if gap < MAX_GAP:
                yield False


def checked_dropout(dropout: Any) -> Dropout | None:
    """Return a dropout, or None if it is None or leaves out nothing.

    Raises:
        TypeError: If `dropout` is neither a Dropout nor None.
    """
    if dropout is None:
        return None
    if not isinstance(dropout, Dropout):
        raise InputTypeError(
            f"must be a Dropout or None, got {short_repr(dropout)}",
            argument="dropout",
            remedy="pass Dropout(0.1, seed=1)",
        )
    return dropout if dropout.probability else None


def _mixed(state: int) -> int:
    """Return the output of SplitMix64 for a state (Steele, Lea and Flood 2014)."""
    state &= _MASK
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    state = (state ^ state >> 27) * 0x94D049BB133111EB & _MASK
    return state ^ state >> 31


def merge_with_dropout(
    symbols: tuple[bytes, ...], ranks: Mapping[tuple[bytes, bytes], int], kept: Iterator[bool]
) -> tuple[bytes, ...]:
    """Merge the symbols of a pre-token by rank, and leave out merges at random.

    Algorithm 1 decides about all possible merges and applies the first that remains. Here, the
    merges are visited in the order they would be applied, until one remains. The result
    has the same distribution.

    Args:
        symbols: Single bytes of the pre-token.
        ranks: Mapping of pair -> rank.
        kept: Whether to keep each visited merge; see `Dropout.kept`.
    """
    while True:
        possible = sorted(
            (ranks[pair], i) for i, pair in enumerate(pairwise(symbols)) if pair in ranks
        )
        i = next((i for _, i in possible if next(kept)), None)
        if i is None:
            return symbols
        symbols = (*symbols[:i], symbols[i] + symbols[i + 1], *symbols[i + 2 :])
