"""Version 2, incremental: count pairs once, then only correct what a merge changes.

Unlike v1, it keeps the counts of all pairs between merges, and for each pair the words that hold
it, so that a merge visits those words and no others.

Cost per merge: the words that hold the pair, and one look at every pair there is to find the
maximum. Biggest downside: that look; on real text it takes most of the time.
"""

from __future__ import annotations

from collections import defaultdict
from time import perf_counter

from cs336_basics.bpe.base import BPE_Trainer, Pair, TieBreak, merge_pair, split_bytes


class IncrementalTrainer(BPE_Trainer):
    """Keeps pair counts and an index from pairs to words up to date."""

    name = "incremental"

    def _learn_merges(self, words: list[bytes], counts: list[int], num_merges: int) -> list[Pair]:
        start = perf_counter()
        splits = [split_bytes(word) for word in words]
        pair_counts: defaultdict[Pair, int] = defaultdict(int)
        pair_words: defaultdict[Pair, set[int]] = defaultdict(set)
        for index, symbols in enumerate(splits):
            for pair in self._pairs(symbols):
                pair_counts[pair] += counts[index]
                pair_words[pair].add(index)
        self.timings["counting pairs"] += perf_counter() - start

        ties = TieBreak(self.tie_break)
        merges: list[Pair] = []
        while len(merges) < num_merges and pair_counts:
            start = perf_counter()
            best = max(pair_counts, key=lambda pair: (pair_counts[pair], ties.key(pair)))
            found = perf_counter()
            self.timings["finding the maximum"] += found - start
            if pair_counts[best] < self.min_frequency:
                break

            # Take the old pairs of a changed word out, put its new pairs in. Pairs that the merge
            # did not touch leave and come back, which is simpler than telling them apart.
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
            merges.append(best)
            ties.add(best)
            self._advance(1)
            self.timings["updating"] += perf_counter() - found
        return merges
