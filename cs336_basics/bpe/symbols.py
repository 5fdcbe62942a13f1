"""Words as tuples of symbols, the state of the merge loop in Python."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

Pair = tuple[bytes, bytes]

NUM_BYTES = 256


def split_bytes(word: bytes) -> tuple[bytes, ...]:
    """Return a word as a tuple of single bytes, as it is before the first merge."""
    return tuple(bytes([byte]) for byte in word)


def merge_pair(symbols: tuple[bytes, ...], pair: Pair) -> tuple[bytes, ...]:
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


def merge_by_rank(symbols: tuple[bytes, ...], ranks: Mapping[Pair, int]) -> tuple[bytes, ...]:
    """Merge the pair with the lowest rank, of equal ones the leftmost, until no pair has a rank."""
    while known := [pair for pair in pairwise(symbols) if pair in ranks]:
        symbols = _merge_pass(symbols, min(known, key=ranks.__getitem__), ranks)
    return symbols


def _merge_pass(
    symbols: tuple[bytes, ...], pair: Pair, ranks: Mapping[Pair, int]
) -> tuple[bytes, ...]:
    """Merge a pair from left to right, as far as this makes no pair of a lower rank.

    A trained vocabulary has no such pair: a merge comes after those that make its two tokens.
    """
    rank, token = ranks[pair], pair[0] + pair[1]
    merged: list[bytes] = []
    i = 0
    while i < len(symbols):
        if symbols[i : i + 2] != pair:
            merged.append(symbols[i])
            i += 1
            continue
        merged.append(token)
        i += 2
        new = [*pairwise(merged[-2:]), *pairwise((token, *symbols[i : i + 1]))]
        if any(ranks.get(other, rank) < rank for other in new):
            return (*merged, *symbols[i:])
    return tuple(merged)
