"""Version 3, heap: the maximum from a lazy max-heap instead of a look at every pair.

Unlike v2, finding the maximum costs O(log pairs). The heap is lazy: when a count changes, its old
entry stays. That is right because the count of an old pair can only fall, so an entry is never
too low: a popped entry whose count is out of date goes back with the count of today, and the first
one that is up to date is the maximum. Pairs whose count can rise are those with the new token,
and they are pushed once, when the merge that makes them is complete.

Cost per merge: the words that hold the pair, and a few heap operations. Biggest downside: Python
itself; every symbol is an object and every count a dictionary look-up.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from time import perf_counter

from cs336_basics.bpe.base import BPE_Trainer, Pair, TieBreak, merge_pair, split_bytes


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


class HeapTrainer(BPE_Trainer):
    """v2's counts and index, and a lazy max-heap over the counts."""

    name = "heap"

    def _learn_merges(self, words: list[bytes], counts: list[int], num_merges: int) -> list[Pair]:
        start = perf_counter()
        splits = [split_bytes(word) for word in words]
        pair_counts: defaultdict[Pair, int] = defaultdict(int)
        pair_words: defaultdict[Pair, set[int]] = defaultdict(set)
        for index, symbols in enumerate(splits):
            for pair in self._pairs(symbols):
                pair_counts[pair] += counts[index]
                pair_words[pair].add(index)
        ties = TieBreak(self.tie_break)
        heap = [_Entry(count, pair, ties) for pair, count in pair_counts.items()]
        heapq.heapify(heap)
        self.timings["counting pairs"] += perf_counter() - start

        merges: list[Pair] = []
        while len(merges) < num_merges:
            start = perf_counter()
            best: Pair | None = None
            while heap:
                entry = heapq.heappop(heap)
                count = pair_counts.get(entry.pair, 0)
                if count == entry.count:
                    best = entry.pair
                    break
                if count:
                    heapq.heappush(heap, _Entry(count, entry.pair, ties))
            found = perf_counter()
            self.timings["finding the maximum"] += found - start
            if best is None or pair_counts[best] < self.min_frequency:
                break

            new_token = best[0] + best[1]
            ties.add(best)
            new_pairs: set[Pair] = set()
            for index in list(pair_words[best]):
                for pair in self._pairs(splits[index]):
                    pair_counts[pair] -= counts[index]
                    pair_words[pair].discard(index)
                    if not pair_counts[pair]:
                        del pair_counts[pair], pair_words[pair]
                splits[index] = merge_pair(splits[index], best)
                for pair in self._pairs(splits[index]):
                    pair_counts[pair] += counts[index]
                    pair_words[pair].add(index)
                    if new_token in pair:
                        new_pairs.add(pair)
            for pair in new_pairs:
                heapq.heappush(heap, _Entry(pair_counts[pair], pair, ties))
            merges.append(best)
            self._advance(1)
            self.timings["updating"] += perf_counter() - found
        return merges
