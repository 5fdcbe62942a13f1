"""Reference functions for byte-pair encoding of a word: merging one pair, and merging by rank.

Sources: Sennrich, Haddow and Birch 2016; Radford et al. 2019 for merging bytes and merging by rank.
Trainers and encoders are tested against these functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

Pair = tuple[bytes, bytes]

Symbols = tuple[bytes, ...]
"""Tokens of a word."""

NUM_BYTES = 256


def split_bytes(word: bytes) -> Symbols:
    """Return the single bytes of a word."""
    return tuple(bytes([byte]) for byte in word)


def merge_pair(symbols: Symbols, pair: Pair) -> Symbols:
    """Merge every occurrence of a pair in a word, from left to right.

    >>> merge_pair((b"a", b"a", b"a"), (b"a", b"a"))
    (b'aa', b'a')
    """
    merged: list[bytes] = []
    i = 0
    while i < len(symbols):
        if symbols[i : i + 2] == pair:
            merged.append(pair[0] + pair[1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return tuple(merged)


def merge_by_rank(symbols: Symbols, ranks: Mapping[Pair, int]) -> Symbols:
    """Repeatedly merge the pair with the lowest rank, leftmost first, until no pair has a rank."""
    steps = list(steps_by_rank(symbols, ranks))
    return steps[-1][2] if steps else symbols


def steps_by_rank(
    symbols: Symbols, ranks: Mapping[Pair, int]
) -> Iterator[tuple[int, int, Symbols]]:
    """For each merge, yield the pair's rank and index, and the symbols after the merge."""
    while known := [(ranks[pair], i) for i, pair in enumerate(pairwise(symbols)) if pair in ranks]:
        rank, i = min(known)
        symbols = (*symbols[:i], symbols[i] + symbols[i + 1], *symbols[i + 2 :])
        yield rank, i, symbols
