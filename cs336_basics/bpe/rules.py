"""Rules: which pairs may merge, which of them wins a tie, and when training ends.

Every trainer receives a `Rules` and applies it in its own loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

from cs336_basics._support.byte_alphabet import byte_to_character
from cs336_basics.bpe.limits import Limits
from cs336_basics.bpe.reference import NUM_BYTES, Pair, Symbols
from cs336_basics.bpe.starting_vocabulary import StartingVocabulary

TIE_BREAKS = ("lexicographic", "huggingface")


@dataclass(frozen=True)
class Rules:
    """The rules of one training run; see `BPE_Trainer` for the options."""

    num_merges: int
    """Number of merges to learn. Training ends earlier if no pair is left."""
    min_frequency: int = 1
    """Minimum count of a merged pair."""
    limits: Limits = field(default_factory=Limits)
    tie_break: str = "lexicographic"
    start: StartingVocabulary = field(default_factory=StartingVocabulary)
    """Vocabulary before the first merge. Its merges have been applied to the words."""
    _refused: dict[Pair, bool] = field(default_factory=dict, init=False)

    def refuse(self, pair: Pair, count: int) -> bool:
        """Return whether a pair must not be merged.

        Call this when the pair is the most frequent one. `pairs` then omits a refused pair. If a
        pair is chosen again, the answer stays the same.
        """
        if not self.limits:
            return False
        if pair not in self._refused:
            self._refused[pair] = self.limits.refuse(*pair, count)
        return self._refused[pair]

    @cached_property
    def pairs(self) -> Callable[[Symbols], Iterable[Pair]]:
        """Function that returns the pairs of adjacent symbols in a word, except refused pairs."""
        if not self.limits:
            return pairwise
        refused = self._refused.get
        return lambda symbols: (pair for pair in pairwise(symbols) if not refused(pair))

    def ties(self) -> Ties:
        """Return the order of equally frequent pairs, for one run."""
        if self.tie_break == "huggingface":
            return HuggingFaceIds(self.start.symbols)
        return LargestPair()

    @property
    def byte_ranks(self) -> bytes | None:
        """Ranks of the bytes in ties for compiled code, or None if tokens compare by their bytes.

        With ranks, the token with the lower rank wins. The rank of a merged token is its index.
        """
        return bytes(huggingface_byte_ranks()) if self.tie_break == "huggingface" else None


class Ties(Protocol):
    """An order of equally frequent pairs."""

    def key(self, pair: Pair) -> Any:
        """Return the sort key of a pair. The pair with the largest key is merged first."""

    def add(self, pair: Pair) -> object:
        """Add the token of a merge. Call this before asking for the key of a pair with it."""


class LargestPair:
    """The tie rule of CS336: merge the largest `(bytes, bytes)` first."""

    def key(self, pair: Pair) -> Pair:
        """See `Ties`."""
        return pair

    def add(self, pair: Pair) -> None:
        """See `Ties`."""


class HuggingFaceIds:
    """The tie rule of `tokenizers`: merge the pair with the smallest (left id, right id) first.

    Ids are assigned as in `tokenizers` with the ByteLevel alphabet: first to the bytes in the order
    of `huggingface_byte_ranks`, then to the merged tokens. A token that is made again gets a new
    id.

    Args:
        symbols: Tokens before the first new merge: the bytes, then the merged tokens of the
            continued vocabulary, if any.
    """

    def __init__(self, symbols: list[bytes]) -> None:
        self._id = {symbol: id for id, symbol in enumerate(symbols)}
        self._id.update((bytes([byte]), id) for byte, id in enumerate(huggingface_byte_ranks()))
        self._next_id = len(symbols)

    def key(self, pair: Pair) -> tuple[int, int]:
        """See `Ties`."""
        return -self._id[pair[0]], -self._id[pair[1]]

    def add(self, pair: Pair) -> None:
        """See `Ties`."""
        self._id[pair[0] + pair[1]] = self._next_id
        self._next_id += 1


def huggingface_byte_ranks() -> list[int]:
    """Return the rank of the character that represents each byte in GPT-2's byte alphabet."""
    characters = byte_to_character()
    ranks = {character: rank for rank, character in enumerate(sorted(characters.values()))}
    return [ranks[characters[byte]] for byte in range(NUM_BYTES)]
