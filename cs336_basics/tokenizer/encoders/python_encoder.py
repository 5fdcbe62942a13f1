"""The `python` backend: merging by rank over ids, with a cache of words.

Unlike `reference.py`, it works on ids instead of bytes, merges each distinct word once as long as
the cache holds it, and merges a very long word with a linked list. It is used where the compiled
encoder is not built; readers find the idea of the compiled encoder here.
"""

from __future__ import annotations

import heapq
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, pairwise

from cs336_basics.tokenizer.encoders.encoder import AbsentByteError, Encoder
from cs336_basics.tokenizer.vocabulary import ABSENT, Vocabulary

_NO_RANK = sys.maxsize

# From about this many bytes on, the linked list is faster than scanning the word for each merge.
_LONG_WORD = 100


class PythonEncoder(Encoder):
    """Merges by rank, one pair at a time; caches the ids of words.

    Args:
        vocabulary, pattern: as `Encoder`.
        cache_size: bytes of memory for cached words; 0 = cache nothing.
    """

    def __init__(self, vocabulary: Vocabulary, pattern: str, cache_size: int) -> None:
        super().__init__(vocabulary, pattern)
        self.cache = WordCache(self.encode_word, cache_size)

    def with_own_cache(self, cache_size: int) -> PythonEncoder:
        """As `Encoder`."""
        return PythonEncoder(self.vocabulary, self.pattern, cache_size)

    def encode_words(self, words: Iterable[str]) -> Iterable[int]:
        """As `Encoder`; the lookup of a cached word runs no line of Python."""
        return chain.from_iterable(map(self.cache.__getitem__, words))

    def encode_word(self, word: str) -> list[int]:
        """As `Encoder`, without the cache."""
        return self.encode_bytes(word.encode())

    def encode_bytes(self, data: bytes) -> list[int]:
        """Return the ids of a word that need not be UTF-8."""
        whole = self.vocabulary.whole_words.get(data)
        if whole is not None:
            return [whole]
        byte_ids = self.vocabulary.byte_ids
        symbols = [byte_ids[byte] for byte in data]
        if ABSENT in symbols:
            offset = symbols.index(ABSENT)
            raise AbsentByteError(data[offset], offset=offset)
        if len(symbols) < _LONG_WORD:
            return self._merge(symbols)
        return list(self._merge_long(symbols))

    def _merge(self, symbols: list[int]) -> list[int]:
        """Merge by rank within a list: fast for a short word, quadratic time for a long one."""
        rank_of = self.vocabulary.pair_ranks.get
        merged_ids = self.vocabulary.merged_ids
        ranks = [rank_of(pair, _NO_RANK) for pair in pairwise(symbols)]
        while (lowest := min(ranks, default=_NO_RANK)) != _NO_RANK:
            i = ranks.index(lowest)
            symbols[i : i + 2] = [merged_ids[lowest]]
            del ranks[i]
            if i > 0:
                ranks[i - 1] = rank_of((symbols[i - 1], symbols[i]), _NO_RANK)
            if i < len(ranks):
                ranks[i] = rank_of((symbols[i], symbols[i + 1]), _NO_RANK)
        return symbols

    def _merge_long(self, word: list[int]) -> Iterator[int]:
        """Merge by rank in time n log n: a linked list of symbols, and the positions of each rank.

        Each merge removes one symbol and adds at most two pairs, so at most three positions are
        visited for each symbol. The positions of a rank come from left to right: what becomes of
        the bytes of a token does not depend on its neighbours as long as no merge reaches across,
        so of two places with the same bytes the left one is never behind. Arrays, not lists: a word
        of a megabyte is then small enough for the L2 cache to help.
        """
        rank_of = self.vocabulary.pair_ranks.get
        merged_ids = self.vocabulary.merged_ids
        end = len(word)
        # symbols[i] begins at byte i; the bytes up to after[i] were merged into it.
        symbols = array("q", word)
        before = array("q", range(-1, end - 1))
        after = array("q", range(1, end + 1))
        positions_of_rank: dict[int, array[int]] = {}
        num_visited: dict[int, int] = {}  # of the positions of each rank
        open_ranks: list[int] = []  # a heap of the keys of positions_of_rank

        def add_pair(position: int) -> None:
            """Record the rank of the pair that begins at `position`."""
            rank = rank_of((symbols[position], symbols[after[position]]))
            if rank is None:
                return
            if rank not in positions_of_rank:
                positions_of_rank[rank] = array("q")
                num_visited[rank] = 0
                heapq.heappush(open_ranks, rank)
            positions_of_rank[rank].append(position)

        for position in range(end - 1):
            add_pair(position)
        while open_ranks:
            rank = open_ranks[0]
            if num_visited[rank] == len(positions_of_rank[rank]):
                heapq.heappop(open_ranks)
                del positions_of_rank[rank], num_visited[rank]
                continue
            position = positions_of_rank[rank][num_visited[rank]]
            num_visited[rank] += 1
            second = after[position]
            # One of the two may have been merged with another since they were recorded.
            if (
                symbols[position] == ABSENT
                or second == end
                or rank_of((symbols[position], symbols[second])) != rank
            ):
                continue
            symbols[position] = merged_ids[rank]
            symbols[second] = ABSENT
            after[position] = after[second]
            if after[position] < end:
                before[after[position]] = position
            if before[position] >= 0:
                add_pair(before[position])
            if after[position] < end:
                add_pair(position)
        return (symbol for symbol in symbols if symbol != ABSENT)


class WordCache(dict[str, list[int]]):
    """Pre-token -> ids, filled on demand: `cache[word]` encodes a word that it lacks.

    It takes about `max_bytes` of memory at most; when it is full, it is emptied. Threads may share
    it: at worst a word is encoded twice, or its bytes are counted slightly wrong. The ids are
    lists, not tuples: Python keeps up to 2,000 freed tuples of every length for itself, so that an
    emptied cache would not free its memory.
    """

    # Memory of a word besides itself and its ids: its slot in the table, which is one third to two
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
        # Long words rarely occur again, and one of them would take the memory of many short ones.
        if len(word.encode()) < _LONG_WORD and num_bytes <= self._max_bytes:
            if self._num_bytes + num_bytes > self._max_bytes:
                self.clear()
                self._num_bytes = 0
            self[word] = ids
            self._num_bytes += num_bytes
        return ids
