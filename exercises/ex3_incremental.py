"""Exercise 3: make v1 incremental.

The trainer below is v1. For every merge, it counts all pairs of all words. Keep the counts between
merges and, for each pair, the words that contain it, so that a merge reads only these words.
Override `learn`, a generator that yields the pair, its count and its work for each merge. Get the
pairs of a word from `rules.pairs(symbols)`; the test counts the calls. The test ignores the work,
which may be the class `Work`, and the steps need not be timed with `step`.

Test: `pytest exercises/test_ex3_incremental.py`. Solution: cs336_basics/bpe/v2_incremental.py.
"""

from cs336_basics.bpe import NaiveTrainer


class IncrementalTrainer(NaiveTrainer):
    """A version of v1 that reads only the words with the merged pair."""
