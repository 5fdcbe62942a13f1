"""Version 1, naive: recount every pair in every word for every merge.

This is the definition of BPE. Every other version must learn exactly the same merges.

Cost per merge: O(total length of the distinct words). Main drawback: a merge changes only a handful
of words, but the pairs of every word are counted again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from cs336_basics.bpe.base import BPE_Trainer
from cs336_basics.bpe.recorder import Step
from cs336_basics.bpe.reference import Pair, Symbols, merge_pair
from cs336_basics.bpe.rules import Rules
from cs336_basics.bpe.trace import Merge, Work


class NaiveTrainer(BPE_Trainer):
    """Counts the pairs, merges the most frequent pair everywhere, and repeats."""

    name = "naive"

    def learn(
        self, words: list[Symbols], counts: list[int], rules: Rules, step: Step
    ) -> Iterator[Merge]:
        pairs, ties = rules.pairs, rules.ties()
        while True:
            with step("counting pairs"):
                pair_counts: Counter[Pair] = Counter()
                for symbols, count in zip(words, counts, strict=True):
                    for pair in pairs(symbols):
                        pair_counts[pair] += count
            with step("finding the maximum"):
                best = max(pair_counts, key=lambda p: (pair_counts[p], ties.key(p)), default=None)
            if best is None or pair_counts[best] < rules.min_frequency:
                return
            if rules.refuse(best, pair_counts[best]):
                continue
            with step("updating"):
                work = partial(Work.of, words, best, rules, pairs_searched=len(pair_counts))
                words = [merge_pair(symbols, best) for symbols in words]
                ties.add(best)
            yield best, pair_counts[best], work
