"""Version 1, naive: recount every pair in every word for every merge.

This is the definition of BPE. Every other version must learn exactly the same merges.

Cost per merge: O(total length of the distinct words). Main drawback: a merge changes only a handful
of words, but the pairs of every word are counted again.
"""

from __future__ import annotations

from collections import Counter

from cs336_basics.bpe.base import BPE_Trainer
from cs336_basics.bpe.reference import Pair, Symbols, merge_pair


class NaiveTrainer(BPE_Trainer):
    """Counts the pairs, merges the most frequent pair everywhere, and repeats."""

    name = "naive"

    def learn(self, words: list[Symbols], num_merges: int) -> list[Pair]:
        merges: list[Pair] = []
        while len(merges) < num_merges:
            pair_counts = self.count_pairs(words)
            best = self.find_best(pair_counts)
            if best is None:
                break
            words = self.merge(words, best)
            merges.append(best)
        return merges

    def count_pairs(self, words: list[Symbols]) -> Counter[Pair]:
        pair_counts: Counter[Pair] = Counter()
        for symbols, count in zip(words, self.counts, strict=True):
            for pair in self.pairs(symbols):
                pair_counts[pair] += count
        return pair_counts

    def find_best(self, pair_counts: Counter[Pair]) -> Pair | None:
        tie = self.tie
        return max(pair_counts, key=lambda pair: (pair_counts[pair], tie(pair)), default=None)

    def merge(self, words: list[Symbols], best: Pair) -> list[Symbols]:
        return [merge_pair(symbols, best) for symbols in words]
