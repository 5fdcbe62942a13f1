"""The Python trainers' min_frequency, max_token_length and tie_break options.

The trainers implement only the algorithm. These functions wrap its steps to apply the options.
Compiled trainers implement the options in their merge loops.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from cs336_basics.bpe.reference import NUM_BYTES, Pair, Symbols

TIE_BREAKS = ("lexicographic", "huggingface")


def apply_options(loop: Any) -> None:
    """Wrap a trainer's steps to apply its options. `loop` must be a copy made for a single run."""
    if loop.max_token_length is not None:
        loop.pairs = functools.partial(_short_pairs, loop.max_token_length)
    if loop.min_frequency > 1:
        loop.find_best = functools.partial(_frequent, loop.find_best, loop.min_frequency)
    if loop.tie_break == "huggingface":
        ids = HuggingFaceIds(loop.start.symbols)
        loop.tie = ids.tie
        loop.merge = functools.partial(ids.merge, loop.merge)


def _short_pairs(limit: int, symbols: Symbols) -> Iterator[Pair]:
    """Yield the adjacent pairs in a word that merge into a token of at most `limit` bytes."""
    return (pair for pair in pairwise(symbols) if len(pair[0]) + len(pair[1]) <= limit)


def _frequent(
    find_best: Callable[[dict[Pair, int]], Pair | None], least: int, pair_counts: dict[Pair, int]
) -> Pair | None:
    """Return the best pair, or None if it occurs fewer than `least` times."""
    best = find_best(pair_counts)
    return best if best is not None and pair_counts[best] >= least else None


class HuggingFaceIds:
    """The tie rule of `tokenizers`: merge the pair with the smallest (left id, right id) first.

    Ids are assigned as in `tokenizers` with the ByteLevel alphabet: first to the bytes in the order
    of `huggingface_byte_ranks`, then to the merged tokens.

    Args:
        symbols: Tokens before the first new merge: the bytes, then the merged tokens of the
            continued vocabulary, if any.
    """

    def __init__(self, symbols: list[bytes]) -> None:
        self._id = {symbol: id for id, symbol in enumerate(symbols)}
        self._id.update((bytes([byte]), id) for byte, id in enumerate(huggingface_byte_ranks()))
        self._next_id = len(symbols)

    def tie(self, pair: Pair) -> tuple[int, int]:
        """Return the sort key of a pair. The pair with the largest key is merged first."""
        return -self._id[pair[0]], -self._id[pair[1]]

    def merge(self, step: Callable[..., Any], words: Any, best: Pair, *state: Any) -> Any:
        """Assign the next id to the merged token, even if it already has one, and then merge."""
        self._id[best[0] + best[1]] = self._next_id
        self._next_id += 1
        return step(words, best, *state)


def huggingface_byte_ranks() -> list[int]:
    """Return the rank of each byte in GPT-2's sorted byte alphabet (Radford et al. 2019).

    Printable Latin-1 characters represent their own bytes. The characters from U+0100 on represent
    the other bytes in order.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = sorted(set(range(NUM_BYTES)) - set(printable))
    ranks = dict(zip(printable + others, range(NUM_BYTES), strict=True))
    return [ranks[byte] for byte in range(NUM_BYTES)]
