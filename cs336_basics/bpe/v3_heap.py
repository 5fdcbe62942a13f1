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
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

from cs336_basics.bpe.base import BPE_Trainer
from cs336_basics.bpe.drawing import Moment, pair_text, table
from cs336_basics.bpe.recorder import Step
from cs336_basics.bpe.reference import Pair, Symbols
from cs336_basics.bpe.rules import Rules, Ties
from cs336_basics.bpe.trace import Merge, Work
from cs336_basics.bpe.v2_incremental import PairIndex


class HeapTrainer(BPE_Trainer):
    """Finds the maximum in a lazy max-heap of the pair counts."""

    name = "heap"
    work_units: ClassVar[Mapping[str, str]] = {
        "finding the maximum": "entries",
        "updating": "touched",
    }

    def learn(
        self, words: list[Symbols], counts: list[int], rules: Rules, step: Step
    ) -> Iterator[Merge]:
        ties = rules.ties()
        with step("counting pairs"):
            index = PairIndex(words, counts, rules)
            heap = PairHeap(index.pair_counts, ties)
        while True:
            with step("finding the maximum"):
                best = heap.pop()
            if best is None or index.pair_counts[best] < rules.min_frequency:
                return
            if rules.refuse(best, index.pair_counts[best]):
                index.remove(best)
                continue
            count = index.pair_counts[best]
            with step("updating"):
                read, new_pairs = index.merge(best)
                ties.add(best)
                heap.push(new_pairs)
            num_entries = heap.num_popped + len(new_pairs)
            work = partial(Work.of, read, best, rules, heap_entries=num_entries, subtracts=True)
            yield best, count, work

    def draw(self, moment: Moment) -> str:
        index = PairIndex(moment.split(), moment.counts, moment.rules)
        heap = PairHeap(index.pair_counts, moment.rules.ties())
        for pair in moment.merges:
            while heap.pop() != pair:
                pass  # a pair that the rules refuse
            _, new_pairs = index.merge(pair)
            heap.push(new_pairs)
        rows = []
        for entry in sorted(heap.entries):
            count = index.pair_counts.get(entry.pair, 0)
            note = "" if count == entry.count else "stale"
            rows.append((pair_text(entry.pair), entry.count, count, note))
        return table([("pair", "in the heap", "now", ""), *rows])


class PairHeap:
    """A lazy max-heap of pairs.

    Args:
        pair_counts: Current counts, which may change between the calls.

    Attributes:
        entries: Heap of entries.
        num_popped: Number of entries that the last call of `pop` popped.
    """

    def __init__(self, pair_counts: Mapping[Pair, int], ties: Ties) -> None:
        self._pair_counts = pair_counts
        self._tie = ties.key
        self.entries = [Entry(count, pair, self._tie(pair)) for pair, count in pair_counts.items()]
        self.num_popped = 0
        heapq.heapify(self.entries)

    def pop(self) -> Pair | None:
        """Pop the most frequent pair, or return None if no pair is left."""
        entries, pair_counts = self.entries, self._pair_counts
        self.num_popped = 0
        while entries:
            entry = heapq.heappop(entries)
            self.num_popped += 1
            count = pair_counts.get(entry.pair, 0)
            if count == entry.count:
                return entry.pair
            if count:
                heapq.heappush(entries, Entry(count, entry.pair, self._tie(entry.pair)))
        return None

    def push(self, pairs: Iterable[Pair]) -> None:
        """Push pairs with their current counts."""
        entries, pair_counts, tie = self.entries, self._pair_counts, self._tie
        for pair in pairs:
            heapq.heappush(entries, Entry(pair_counts[pair], pair, tie(pair)))


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
