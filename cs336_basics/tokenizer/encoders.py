"""The encoder in plain Python: merging by rank, with words remembered.

Unlike `reference.py`, tokens are ids instead of bytes, what was encoded before is remembered, and a
very long pre-token takes a linked list. It works where the compiled encoder is not built, and is
the step between the two for who reads them in order.
"""

from __future__ import annotations

import heapq
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise

ABSENT = -1
"""Stands for the id of a byte that the vocabulary lacks."""

_NO_RANK = sys.maxsize

# From about this many bytes the linked list wins over scanning the whole word for each merge.
_LONG_WORD = 100


class AbsentByteError(Exception):
    """A word needs a byte for which the vocabulary has no token.

    Attributes:
        byte: its value.
    """

    def __init__(self, byte: int) -> None:
        super().__init__(byte)
        self.byte = byte


class PythonEncoder:
    """Merges by rank: of all pairs of neighbours the one that was learned first, wherever it is.

    Args:
        byte_ids: the id of every byte, ABSENT for one that the vocabulary lacks.
        pair_ranks: (left id, right id) -> rank.
        merged_ids: the id that the merge of a rank makes.
        cache_size: bytes of memory for remembered words, 0 = remember nothing.
    """

    def __init__(
        self,
        byte_ids: Sequence[int],
        pair_ranks: Mapping[tuple[int, int], int],
        merged_ids: Sequence[int],
        cache_size: int,
    ) -> None:
        self._byte_ids = byte_ids
        self._pair_ranks = pair_ranks
        self._merged_ids = merged_ids
        self._cache = WordCache(self.encode_word, cache_size)

    def streaming_cache(self, cache_size: int) -> WordCache:
        """Return a cache for `encode_words` that takes at most that many bytes."""
        return WordCache(self.encode_word, cache_size)

    def encode_words(self, words: Iterable[str], cache: WordCache | None = None) -> Iterator[int]:
        """Yield the ids of pre-tokens.

        Raises:
            AbsentByteError: a byte has no token.
        """
        known = self._cache if cache is None else cache
        # Looking up a known word takes no line of Python.
        return chain.from_iterable(map(known.__getitem__, words))

    def encode_word(self, word: str) -> list[int]:
        """Return the ids of one pre-token."""
        data = word.encode()
        symbols = [self._byte_ids[byte] for byte in data]
        if ABSENT in symbols:
            raise AbsentByteError(data[symbols.index(ABSENT)])
        if len(symbols) < _LONG_WORD:
            return self._merge(symbols)
        return list(self._merge_long(symbols))

    def _merge(self, symbols: list[int]) -> list[int]:
        """Merge by rank in a list, in place: quick for a short word, n^2 for a long one."""
        rank_of = self._pair_ranks.get
        ranks = [rank_of(pair, _NO_RANK) for pair in pairwise(symbols)]
        while (lowest := min(ranks, default=_NO_RANK)) != _NO_RANK:
            # One pass: every place of that pair, from left to right, before another is looked at.
            while lowest in ranks:
                place = ranks.index(lowest)
                symbols[place : place + 2] = [self._merged_ids[lowest]]
                del ranks[place]
                if place > 0:
                    ranks[place - 1] = rank_of((symbols[place - 1], symbols[place]), _NO_RANK)
                if place < len(ranks):
                    ranks[place] = rank_of((symbols[place], symbols[place + 1]), _NO_RANK)
        return symbols

    def _merge_long(self, word: list[int]) -> Iterator[int]:
        """Merge by rank in time n log n: a linked list of symbols, and for each rank its places.

        The same passes as `_merge`, but a pass only visits the places of its own pair. Each merge
        takes one symbol away and adds at most two pairs, so all passes together visit at most three
        places for each symbol. Arrays, not lists: a word of a megabyte then stays small enough for
        the processor's cache to help.
        """
        rank_of = self._pair_ranks.get
        end = len(word)
        # symbols[i] begins at byte i; the bytes up to after[i] were merged into it.
        symbols = array("q", word)
        before = array("q", range(-1, end - 1))
        after = array("q", range(1, end + 1))
        places_of_rank: dict[int, array[int]] = {}
        open_ranks: list[int] = []  # a heap of the keys of places_of_rank

        def note(place: int) -> None:
            """Put down the rank of the pair that begins at `place`."""
            rank = rank_of((symbols[place], symbols[after[place]]))
            if rank is None:
                return
            if rank not in places_of_rank:
                places_of_rank[rank] = array("q")
                heapq.heappush(open_ranks, rank)
            places_of_rank[rank].append(place)

        for place in range(end - 1):
            note(place)
        while open_ranks:
            rank = heapq.heappop(open_ranks)
            for place in sorted(places_of_rank.pop(rank)):
                second = after[place]
                # One of the two may have been merged with another since they were put down.
                if (
                    symbols[place] == ABSENT
                    or second == end
                    or rank_of((symbols[place], symbols[second])) != rank
                ):
                    continue
                symbols[place] = self._merged_ids[rank]
                symbols[second] = ABSENT
                after[place] = after[second]
                if after[place] < end:
                    before[after[place]] = place
                # The new pairs wait for the end of this pass, even one of a lower rank.
                if before[place] >= 0:
                    note(before[place])
                if after[place] < end:
                    note(place)
        return (symbol for symbol in symbols if symbol != ABSENT)


class WordCache(dict[str, list[int]]):
    """Pre-token -> ids, filled on demand: `cache[word]` encodes a word that it does not know.

    At most about `max_bytes` of memory are used; then the cache is emptied. Threads may share it:
    at worst they encode a word twice or count its bytes wrong by a little. The ids are lists, not
    tuples: Python keeps up to 2,000 freed tuples of every length for itself, so that an emptied
    cache would not give its memory back.
    """

    # What a word takes besides itself and its ids: its place in the table, which is a third to two
    # thirds full, and the rounding of the allocator. Measured with tracemalloc.
    _SLOT = 50

    def __init__(self, encode_word: Callable[[str], list[int]], max_bytes: int) -> None:
        super().__init__()
        self._encode_word = encode_word
        self._max_bytes = max_bytes
        self._num_bytes = 0

    def __missing__(self, word: str) -> list[int]:
        ids = self._encode_word(word)
        num_bytes = sys.getsizeof(word) + sys.getsizeof(ids) + self._SLOT
        # Long words seldom come again, and one of them would take the place of many.
        if len(word.encode()) < _LONG_WORD and num_bytes <= self._max_bytes:
            if self._num_bytes + num_bytes > self._max_bytes:
                self.clear()
                self._num_bytes = 0
            self[word] = ids
            self._num_bytes += num_bytes
        return ids
