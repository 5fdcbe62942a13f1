"""Version 1, naive: recount every pair of every word at every merge.

The definition of BPE, written down. Every other version must learn exactly these merges.

Cost per merge: the length of all distinct words. Biggest downside: a merge changes a handful of
words, and all of them are counted again.
"""

from __future__ import annotations

from collections import Counter
from time import perf_counter

from cs336_basics.bpe.base import BPE_Trainer, Pair, TieBreak, merge_pair, split_bytes


class NaiveTrainer(BPE_Trainer):
    """Counts, takes the maximum, merges, and begins again."""

    name = "naive"

    def _learn_merges(self, words: list[bytes], counts: list[int], num_merges: int) -> list[Pair]:
        splits = [split_bytes(word) for word in words]
        ties = TieBreak(self.tie_break)
        merges: list[Pair] = []
        while len(merges) < num_merges:
            start = perf_counter()
            pair_counts: Counter[Pair] = Counter()
            for symbols, count in zip(splits, counts, strict=True):
                for pair in self._pairs(symbols):
                    pair_counts[pair] += count
            counted = perf_counter()
            self.timings["counting pairs"] += counted - start
            if not pair_counts:
                break

            best = max(pair_counts, key=lambda pair: (pair_counts[pair], ties.key(pair)))
            found = perf_counter()
            self.timings["finding the maximum"] += found - counted
            if pair_counts[best] < self.min_frequency:
                break

            splits = [merge_pair(symbols, best) for symbols in splits]
            merges.append(best)
            ties.add(best)
            self._advance(1)
            self.timings["updating"] += perf_counter() - found
        return merges
