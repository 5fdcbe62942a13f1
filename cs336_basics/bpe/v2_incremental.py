"""Version 2, incremental: count pairs once, then only correct what a merge changes.

Unlike v1, it keeps the counts of all pairs between merges, and for each pair the words that hold
it, so that a merge visits those words and no others.

Cost per merge: the words that hold the pair, and a search through all pairs for the maximum.
Biggest downside: that search; on real text it takes most of the time.
"""

from __future__ import annotations

from collections import defaultdict

from cs336_basics.bpe.base import BPE_Trainer
from cs336_basics.bpe.symbols import Pair, merge_pair
from cs336_basics.bpe.trace import Work


class IncrementalTrainer(BPE_Trainer):
    """Keeps pair counts, and an index from pairs to words, up to date."""

    name = "incremental"

    def _index(self, words: list[bytes], counts: list[int]) -> None:
        splits = [self.start.split(word) for word in words]
        pair_counts: defaultdict[Pair, int] = defaultdict(int)
        pair_words: defaultdict[Pair, set[int]] = defaultdict(set)
        pairs = self._pairs
        for index, symbols in enumerate(splits):
            for pair in pairs(symbols):
                pair_counts[pair] += counts[index]
                pair_words[pair].add(index)
        self._splits, self._counts = splits, counts
        self._pair_counts, self._pair_words = pair_counts, pair_words

    def _find_best(self) -> Pair | None:
        counts, ties = self._pair_counts, self._ties
        return max(counts, key=lambda pair: (counts[pair], ties.key(pair)), default=None)

    def _apply(self, pair: Pair) -> None:
        self._merge_words(pair)

    def _merge_words(self, best: Pair) -> set[Pair]:
        """Merge a pair in all words that hold it; return the pairs that hold the new token."""
        splits, counts, pairs = self._splits, self._counts, self._pairs
        pair_counts, pair_words = self._pair_counts, self._pair_words
        new_token = best[0] + best[1]
        new_pairs: set[Pair] = set()
        # Remove the old pairs of a changed word and add its new pairs. Pairs that the merge did not
        # touch are removed and added again, which is simpler than telling them apart.
        for index in list(pair_words[best]):
            symbols, count = splits[index], counts[index]
            for pair in pairs(symbols):
                pair_counts[pair] -= count
                pair_words[pair].discard(index)
                if not pair_counts[pair]:
                    del pair_counts[pair], pair_words[pair]
            splits[index] = symbols = merge_pair(symbols, best)
            for pair in pairs(symbols):
                pair_counts[pair] += count
                pair_words[pair].add(index)
                if new_token in pair:
                    new_pairs.add(pair)
        return new_pairs

    def _work(self, pair: Pair) -> Work:
        before = [self._splits[index] for index in self._pair_words[pair]]
        after = [merge_pair(symbols, pair) for symbols in before]
        num_positions = sum(map(len, before))
        return Work(
            occurrences=num_positions - sum(map(len, after)),
            words=len(before),
            positions=num_positions,
            pairs_searched=len(self._pair_counts),
            pairs_updated=sum(1 for symbols in before + after for _ in self._pairs(symbols)),
        )
