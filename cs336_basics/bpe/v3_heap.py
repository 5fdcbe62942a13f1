"""Version 3, heap: find the maximum in a lazy max-heap instead of searching all pairs.

Unlike in v2, finding the maximum takes O(log pairs). The heap is lazy: when a count changes, the
old entry stays. If a popped entry has a stale count, the pair is pushed again with its current
count. The first popped entry with a current count is the maximum, because no entry's count is too
low: the count of an existing pair can only fall. Only the counts of pairs with the new token rise,
and these pairs are pushed once, after the merge that creates them.

Cost per merge: an update of each word that contains the pair, and a few heap operations. Main
drawback: Python itself, because every symbol is an object and every count is a dictionary lookup.
"""

from __future__ import annotations

import heapq
from typing import Any

from cs336_basics.bpe.reference import Pair, Symbols
from cs336_basics.bpe.v2_incremental import IncrementalTrainer


class HeapTrainer(IncrementalTrainer):
    """Finds the maximum in a lazy max-heap of the pair counts."""

    name = "heap"

    heap: list[Entry]

    def count_pairs(self, words: list[Symbols]) -> dict[Pair, int]:
        pair_counts = super().count_pairs(words)
        self.heap = [Entry(count, pair, self.tie(pair)) for pair, count in pair_counts.items()]
        heapq.heapify(self.heap)
        return pair_counts

    def find_best(self, pair_counts: dict[Pair, int]) -> Pair | None:
        heap = self.heap
        while heap:
            entry = heapq.heappop(heap)
            count = pair_counts.get(entry.pair, 0)
            if count == entry.count:
                return entry.pair
            if count:
                heapq.heappush(heap, Entry(count, entry.pair, self.tie(entry.pair)))
        return None

    def merge(self, words: list[Symbols], best: Pair, pair_counts: dict[Pair, int]) -> set[Pair]:
        heap, tie = self.heap, self.tie
        new_pairs = super().merge(words, best, pair_counts)
        for pair in new_pairs:
            heapq.heappush(heap, Entry(pair_counts[pair], pair, tie(pair)))
        return new_pairs


class Entry:
    """A heap entry, ordered so that `heapq` pops the largest (count, tie) first."""

    __slots__ = ("count", "pair", "tie")

    def __init__(self, count: int, pair: Pair, tie: Any) -> None:
        self.count = count
        self.pair = pair
        self.tie = tie

    def __lt__(self, other: Entry) -> bool:
        if self.count != other.count:
            return self.count > other.count
        return bool(self.tie > other.tie)
