"""Exercise 2: make v1 incremental.

The trainer below is v1: it counts all pairs of all words for every merge. Keep the counts between
merges, and for each pair the words that hold it; then a merge reads these words only. Override
`learn`, `count_pairs` and `merge`. Take the pairs of a word from `self.pairs(symbols)`: the test
counts the calls.

Test: `pytest exercises/test_ex2_incremental.py`. Solution: cs336_basics/bpe/v2_incremental.py.
"""

from cs336_basics.bpe import NaiveTrainer


class IncrementalTrainer(NaiveTrainer):
    """v1, which is to visit only the words that hold the merged pair."""
