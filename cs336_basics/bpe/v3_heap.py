"""Version 3, heap: the maximum comes from a lazy max-heap instead of a search through all pairs.

Unlike v2, finding the maximum takes O(log pairs); everything else is v2's. The heap is lazy: when a
count changes, its old entry stays. This is correct because the count of an old pair can only fall,
so no entry is too low: a popped entry whose count is out of date is pushed again with the current
count, and the first entry that is up to date is the maximum. Only pairs with the new token can rise
in count, and they are pushed once, when the merge that makes them is complete.

Cost per merge: the words that hold the pair, and a few heap operations. Biggest downside: Python
itself; every symbol is an object and every count a dictionary lookup.
"""

from __future__ import annotations

import heapq

from cs336_basics.bpe.base import TieBreak
from cs336_basics.bpe.symbols import Pair, merge_pair
from cs336_basics.bpe.trace import Work
from cs336_basics.bpe.v2_incremental import IncrementalTrainer


class HeapTrainer(IncrementalTrainer):
    """v2's counts and index, and a lazy max-heap of the counts."""

    name = "heap"

    def _index(self, words: list[bytes], counts: list[int]) -> None:
        super()._index(words, counts)
        self._heap = [_Entry(count, pair, self._ties) for pair, count in self._pair_counts.items()]
        heapq.heapify(self._heap)

    def _find_best(self) -> Pair | None:
        heap, pair_counts = self._heap, self._pair_counts
        self._num_popped = 0
        while heap:
            entry = heapq.heappop(heap)
            self._num_popped += 1
            count = pair_counts.get(entry.pair, 0)
            if count == entry.count:
                return entry.pair
            if count:
                heapq.heappush(heap, _Entry(count, entry.pair, self._ties))
        return None

    def _apply(self, pair: Pair) -> None:
        heap, pair_counts, ties = self._heap, self._pair_counts, self._ties
        for new_pair in self._merge_words(pair):
            heapq.heappush(heap, _Entry(pair_counts[new_pair], new_pair, ties))

    def _work(self, pair: Pair) -> Work:
        new_token = pair[0] + pair[1]
        merged = (merge_pair(self._splits[index], pair) for index in self._pair_words[pair])
        new_pairs = {new for symbols in merged for new in self._pairs(symbols) if new_token in new}
        heap_entries = self._num_popped + len(new_pairs)
        return super()._work(pair)._replace(pairs_searched=0, heap_entries=heap_entries)


class _Entry:
    """A heap entry; `heapq` keeps the smallest first, so the greatest (count, tie) is smallest."""

    __slots__ = ("count", "pair", "tie")

    def __init__(self, count: int, pair: Pair, ties: TieBreak) -> None:
        self.count = count
        self.pair = pair
        self.tie = ties.key(pair)

    def __lt__(self, other: _Entry) -> bool:
        if self.count != other.count:
            return self.count > other.count
        return bool(self.tie > other.tie)
