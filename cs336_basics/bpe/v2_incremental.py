"""Version 2, incremental: count pairs once, then update the counts that a merge changes.

Unlike v1, this version counts the pairs once, before the loop, and keeps an index from each pair to
the words that contain the pair. A merge visits only these words and updates the counts of their
pairs.

Cost per merge: an update of each word that contains the pair, and a search through all pairs for
the maximum. Main drawback: on real text, this search takes most of the time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from typing import ClassVar

from cs336_basics.bpe.base import BPE_Trainer
from cs336_basics.bpe.drawing import Moment, maximum, pair_text, table, words_table
from cs336_basics.bpe.recorder import Step
from cs336_basics.bpe.reference import Pair, Symbols, merge_pair
from cs336_basics.bpe.rules import Rules, Ties
from cs336_basics.bpe.trace import Merge, Work


class IncrementalTrainer(BPE_Trainer):
    """Maintains pair counts and an index from pairs to words."""

    name = "incremental"
    work_units: ClassVar[Mapping[str, str]] = {
        "finding the maximum": "pairs",
        "updating": "touched",
    }

    def learn(
        self, words: list[Symbols], counts: list[int], rules: Rules, step: Step
    ) -> Iterator[Merge]:
        ties = rules.ties()
        with step("counting pairs"):
            index = PairIndex(words, counts, rules)
        while True:
            with step("finding the maximum"):
                best = find_best(index.pair_counts, ties)
            if best is None or index.pair_counts[best] < rules.min_frequency:
                return
            if rules.refuse(best, index.pair_counts[best]):
                index.remove(best)
                continue
            count, num_pairs = index.pair_counts[best], len(index.pair_counts)
            with step("updating"):
                read, _ = index.merge(best)
                ties.add(best)
            work = partial(Work.of, read, best, rules, pairs_searched=num_pairs, subtracts=True)
            yield best, count, work

    def draw(self, moment: Moment) -> str:
        index = PairIndex(moment.split(), moment.counts, moment.rules)
        for pair in moment.merges:
            index.merge(pair)
        words = {pair: sorted(index.pair_words[pair]) for pair in index.pair_counts}
        rows = [
            (pair_text(pair), count, " ".join(map(str, words[pair])))
            for pair, count in moment.pairs()
        ]
        found = maximum(moment)
        if moment.best:
            *others, last = map(str, words[moment.best])
            visited = f"s {', '.join(others)} and {last} are" if others else f" {last} is"
            found += f", so only word{visited} visited"
        return f"{words_table(moment)}\n\n{table([('pair', 'count', 'words'), *rows])}\n\n{found}"


def find_best(pair_counts: Mapping[Pair, int], ties: Ties) -> Pair | None:
    """Return the most frequent pair, or None if there are no pairs."""
    key = ties.key
    return max(pair_counts, key=lambda pair: (pair_counts[pair], key(pair)), default=None)


class PairIndex:
    """The count of each pair, and the words that contain it.

    Args:
        words: The symbols of each word. `merge` changes the list.
        counts: Number of occurrences of each word.

    Attributes:
        pair_counts: Mapping from pairs to counts.
        pair_words: Mapping from pairs to the indices of the words that contain them.
    """

    def __init__(self, words: list[Symbols], counts: list[int], rules: Rules) -> None:
        self.words = words
        self.counts = counts
        self.pairs = pairs = rules.pairs
        pair_counts: defaultdict[Pair, int] = defaultdict(int)
        pair_words: defaultdict[Pair, set[int]] = defaultdict(set)
        for index, (symbols, count) in enumerate(zip(words, counts, strict=True)):
            for pair in pairs(symbols):
                pair_counts[pair] += count
                pair_words[pair].add(index)
        self.pair_counts = pair_counts
        self.pair_words = pair_words

    def remove(self, pair: Pair) -> None:
        """Remove a pair that the rules refuse."""
        del self.pair_counts[pair], self.pair_words[pair]

    def merge(self, best: Pair) -> tuple[list[Symbols], set[Pair]]:
        """Merge a pair in the words that contain it.

        Returns:
            These words before the merge, and the pairs with the new token.
        """
        words, counts, pairs = self.words, self.counts, self.pairs
        pair_counts, pair_words = self.pair_counts, self.pair_words
        new_token = best[0] + best[1]
        read: list[Symbols] = []
        new_pairs: set[Pair] = set()
        # Remove all old pairs of a changed word and add all its new pairs. Skipping the unchanged
        # pairs would be faster but more complicated.
        for index in list(pair_words[best]):
            symbols, count = words[index], counts[index]
            read.append(symbols)
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
        return read, new_pairs
