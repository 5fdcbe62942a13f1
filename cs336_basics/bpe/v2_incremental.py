"""Version 2, incremental: count pairs once, then update the counts that a merge changes.

Unlike v1, this version counts the pairs once, before the loop, and keeps an index from each pair to
the words that contain the pair. A merge visits only these words and updates the counts of their
pairs.

Cost per merge: an update of each word that contains the pair, and a search through all pairs for
the maximum. Main drawback: on real text, this search takes most of the time.
"""

from __future__ import annotations

from collections import defaultdict

from cs336_basics.bpe.base import BPE_Trainer
from cs336_basics.bpe.reference import Pair, Symbols, merge_pair


class IncrementalTrainer(BPE_Trainer):
    """Maintains pair counts and an index from pairs to words."""

    name = "incremental"

    pair_words: defaultdict[Pair, set[int]]
    """Mapping from pairs to the indices of the words that contain them."""

    def learn(self, words: list[Symbols], num_merges: int) -> list[Pair]:
        merges: list[Pair] = []
        pair_counts = self.count_pairs(words)
        while len(merges) < num_merges:
            best = self.find_best(pair_counts)
            if best is None:
                break
            self.merge(words, best, pair_counts)
            merges.append(best)
        return merges

    def count_pairs(self, words: list[Symbols]) -> dict[Pair, int]:
        pair_counts: defaultdict[Pair, int] = defaultdict(int)
        pair_words: defaultdict[Pair, set[int]] = defaultdict(set)
        for index, (symbols, count) in enumerate(zip(words, self.counts, strict=True)):
            for pair in self.pairs(symbols):
                pair_counts[pair] += count
                pair_words[pair].add(index)
        self.pair_words = pair_words
        return pair_counts

    def find_best(self, pair_counts: dict[Pair, int]) -> Pair | None:
        tie = self.tie
        return max(pair_counts, key=lambda pair: (pair_counts[pair], tie(pair)), default=None)

    def merge(self, words: list[Symbols], best: Pair, pair_counts: dict[Pair, int]) -> set[Pair]:
        """Merge a pair in the words that contain it, and return the pairs with the new token."""
        counts, pairs, pair_words = self.counts, self.pairs, self.pair_words
        new_token = best[0] + best[1]
        new_pairs: set[Pair] = set()
        # Remove all old pairs of a changed word and add all its new pairs. Skipping the unchanged
        # pairs would be faster but more complicated.
        for index in list(pair_words[best]):
            symbols, count = words[index], counts[index]
            for pair in pairs(symbols):
                pair_counts[pair] -= count
                pair_words[pair].discard(index)
                if not pair_counts[pair]:
                    del pair_counts[pair], pair_words[pair]
            words[index] = symbols = merge_pair(symbols, best)
            for pair in pairs(symbols):
                pair_counts[pair] += count
                pair_words[pair].add(index)
                if new_token in pair:
                    new_pairs.add(pair)
        return new_pairs
