"""Version 1, naive: recount every pair of every word at every merge.

The definition of BPE, written down. Every other version must learn exactly these merges.

Cost per merge: the length of all distinct words. Biggest downside: a merge changes a handful of
words, but all of them are counted again.
"""

from __future__ import annotations

from collections import Counter

from cs336_basics.bpe.base import BPE_Trainer
from cs336_basics.bpe.symbols import Pair, merge_pair
from cs336_basics.bpe.trace import Work


class NaiveTrainer(BPE_Trainer):
    """Counts, takes the maximum, merges, and begins again.

    It is the one version with a `_recount`: the base class calls it before every search and times
    it as "counting pairs".
    """

    name = "naive"

    def _index(self, words: list[bytes], counts: list[int]) -> None:
        self._splits = [self.start.split(word) for word in words]
        self._counts = counts

    def _recount(self) -> None:
        pairs, pair_counts = self._pairs, Counter[Pair]()
        for symbols, count in zip(self._splits, self._counts, strict=True):
            for pair in pairs(symbols):
                pair_counts[pair] += count
        self._pair_counts = pair_counts

    def _find_best(self) -> Pair | None:
        counts, ties = self._pair_counts, self._ties
        return max(counts, key=lambda pair: (counts[pair], ties.key(pair)), default=None)

    def _apply(self, pair: Pair) -> None:
        self._splits = [merge_pair(symbols, pair) for symbols in self._splits]

    def _work(self, pair: Pair) -> Work:
        splits = self._splits
        return Work(
            occurrences=sum(len(symbols) - len(merge_pair(symbols, pair)) for symbols in splits),
            words=len(splits),
            positions=sum(map(len, splits)),
            pairs_searched=len(self._pair_counts),
            pairs_updated=sum(1 for symbols in splits for _ in self._pairs(symbols)),
        )
