"""The `python` backend: merge ids by rank, with a cache of words.

Unlike `reference.py`, this backend works on ids instead of bytes, caches the ids of words, and
merges long words with a linked list. It is the default if the extensions are not built. The
compiled encoder uses the same techniques.
"""

from __future__ import annotations

import heapq
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, pairwise

from cs336_basics.tokenizer.definition import ABSENT, TokenizerDefinition
from cs336_basics.tokenizer.encoders.absent_bytes import absent_in_word
from cs336_basics.tokenizer.encoders.encoder import Encoder

_NO_RANK = sys.maxsize

# For words of at least this many bytes, a linked list is faster than a scan for each merge.
_LONG_WORD = 100


class RankMerger:
    """Merges the bytes of words by rank, one pair at a time.

    Args:
        definition: Definition of the ids.
        ranks: Mapping of (left id, right id) -> rank. Defaults to all merges of the definition.
        whole_words: Words that become one id without merging. Defaults to the definition's.
    """

    def __init__(
        self,
        definition: TokenizerDefinition,
        ranks: Mapping[tuple[int, int], int] | None = None,
        whole_words: Mapping[bytes, int] | None = None,
    ) -> None:
        self._byte_ids = definition.byte_ids
        self._merged_ids = definition.merged_ids
        self._ranks = definition.pair_ranks if ranks is None else ranks
        self._whole_words = definition.whole_words if whole_words is None else whole_words

    def encode(self, word: bytes) -> list[int]:
        """Return the ids of a word, which may be arbitrary bytes.

        Raises:
            AbsentByteError: If the vocabulary does not contain a byte of the word.
        """
        whole = self._whole_words.get(word)
        if whole is not None:
            return [whole]
        byte_ids = self._byte_ids
        symbols = [byte_ids[byte] for byte in word]
        if ABSENT in symbols:
            raise absent_in_word(word, symbols.index(ABSENT))
        if len(symbols) < _LONG_WORD:
            return self._merge(symbols)
        return list(self._merge_long(symbols))

    def _merge(self, symbols: list[int]) -> list[int]:
        """Merge by rank in a list. This takes quadratic time, but is fast for short words."""
        rank_of = self._ranks.get
        merged_ids = self._merged_ids
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
        """Merge by rank in O(n log n) time, with a linked list and the positions of each rank.

        At most three positions are recorded per symbol: one at the start, and two for each merge,
        because every merge removes a symbol.

        A rank's positions are recorded from left to right, so the first one is the leftmost.
        Proof: a part of the word is merged independently of its neighbors until a merge crosses its
            ends. Consider two parts with the same bytes. Whenever they are in the same state, they
            have the same next merge, and the left part applies it first. So the left part is never
            behind, and its pair is recorded first.

        Arrays need less memory than lists, so even a one-megabyte word benefits from the L2 cache.
        """
        rank_of = self._ranks.get
        merged_ids = self._merged_ids
        end = len(word)
        # symbols[i] covers the bytes from i to after[i].
        symbols = array("q", word)
        before = array("q", range(-1, end - 1))
        after = array("q", range(1, end + 1))
        positions_of_rank: dict[int, array[int]] = {}
        num_visited: dict[int, int] = {}  # number of visited positions
        open_ranks: list[int] = []  # a heap of the keys of positions_of_rank

        def add_pair(position: int) -> None:
            """Record `position` for the rank of the pair that starts there."""
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
            # Another merge may have changed the pair since it was recorded.
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


class PythonEncoder(Encoder):
    """Merges words with a RankMerger, and caches their ids.

    Args:
        definition: See `Encoder`.
        cache_size: Bytes of memory for cached words; 0 disables the cache.
    """

    def __init__(self, definition: TokenizerDefinition, cache_size: int) -> None:
        super().__init__(definition)
        self._merger = RankMerger(definition)
        self.cache = WordCache(self.encode_word, cache_size)

    def with_own_cache(self, cache_size: int) -> PythonEncoder:
        """See `Encoder`."""
        return PythonEncoder(self.definition, cache_size)

    def encode_words(self, words: Iterable[str]) -> Iterable[int]:
        """See `Encoder`. Cached words are looked up without running Python code."""
        return chain.from_iterable(map(self.cache.__getitem__, words))

    def encode_word(self, word: str) -> list[int]:
        """Return the ids of one pre-token, without using the cache."""
        return self._merger.encode(word.encode())


class WordCache(dict[str, list[int]]):
    """Cache of the ids of pre-tokens. `cache[word]` encodes a missing word and adds it.

    The cache takes about `max_bytes` of memory and is emptied when it is full. Threads can share
    it; at worst, a word is encoded twice, or the memory is slightly miscounted. The ids are lists
    because Python keeps up to 2,000 freed tuples of every length, so clearing a cache of tuples
    would not free all memory.
    """

    # Memory overhead of a cached word, measured with tracemalloc: its slot in the hash table, which
    # is one third to two thirds full, and the allocator's rounding.
    _SLOT = 50

    def __init__(self, encode_word: Callable[[str], list[int]], max_bytes: int) -> None:
        super().__init__()
        self._encode_word = encode_word
        self._max_bytes = max_bytes
        self._num_bytes = 0

    def __missing__(self, word: str) -> list[int]:
        ids = self._encode_word(word)
        num_bytes = sys.getsizeof(word) + sys.getsizeof(ids) + self._SLOT
        # Long words rarely repeat, and each would take as much memory as many short ones.
        if len(word.encode()) < _LONG_WORD and num_bytes <= self._max_bytes:
            if self._num_bytes + num_bytes > self._max_bytes:
                self.clear()
                self._num_bytes = 0
            self[word] = ids
            self._num_bytes += num_bytes
        return ids
