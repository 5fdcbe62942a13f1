"""WorkCounter: measures how much data each merge of a Python trainer reads and changes."""

from __future__ import annotations

from typing import Any

from cs336_basics.bpe.reference import Pair, Symbols, merge_pair
from cs336_basics.bpe.trace import Work


class WorkCounter:
    """Computes the Work of each merge from a trainer's words, pair counts and index.

    Args:
        loop: Copy of a trainer, used for one training run.
    """

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self._lookups: _Lookups | None = None

    def watched(self, pair_counts: dict[Pair, int]) -> Any:
        """Return the pair counts for `find_best`, wrapped to count lookups if there is a heap."""
        if not hasattr(self._loop, "heap"):
            return pair_counts
        self._lookups = _Lookups(pair_counts)
        return self._lookups

    def of_merge(self, words: list[Symbols], best: Pair, pair_counts: dict[Pair, int]) -> Work:
        """Return the work done to find a pair and merge it."""
        pair_words = getattr(self._loop, "pair_words", None)
        if pair_words is not None:
            words = [words[index] for index in pair_words[best]]
        after = [merge_pair(symbols, best) for symbols in words]
        num_positions = sum(map(len, words))
        counted = words if pair_words is None else words + after
        work = Work(
            occurrences=num_positions - sum(map(len, after)),
            words=len(words),
            positions=num_positions,
            pairs_searched=len(pair_counts),
            pairs_updated=sum(1 for symbols in counted for _ in self._loop.pairs(symbols)),
        )
        if self._lookups is None:
            return work
        new_token = best[0] + best[1]
        new = {pair for symbols in after for pair in self._loop.pairs(symbols) if new_token in pair}
        return work._replace(pairs_searched=0, heap_entries=self._lookups.number + len(new))


class _Lookups:
    """Pair counts that also count lookups. `HeapTrainer.find_best` looks up each popped entry."""

    def __init__(self, pair_counts: dict[Pair, int]) -> None:
        self._pair_counts = pair_counts
        self.number = 0

    def get(self, pair: Pair, default: int) -> int:
        self.number += 1
        return self._pair_counts.get(pair, default)

    def __getitem__(self, pair: Pair) -> int:
        return self._pair_counts[pair]
