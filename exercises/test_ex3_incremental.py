"""Exercise 3: an incremental trainer."""

import random
from contextlib import nullcontext
from itertools import islice, pairwise

from cs336_basics.bpe import NaiveTrainer
from cs336_basics.bpe.rules import Rules
from exercises import ex3_incremental as exercise


def learned(trainer, words, num_merges):
    """Return the merges with their counts, and the number of words whose pairs were read."""
    read = []

    class Watched(Rules):
        def pairs(self, symbols):
            read.append(symbols)
            return pairwise(symbols)

    split = [tuple(bytes([byte]) for byte in word) for word in words]
    merges = trainer.learn(split, list(words.values()), Watched(num_merges), nullcontext)
    return [(pair, count) for pair, count, _ in islice(merges, num_merges)], len(read)


def test_the_merges_equal_v1():
    numbers = random.Random(0)
    for _ in range(50):
        words = {bytes(numbers.choices(b"aabc", k=6)): numbers.randint(1, 9) for _ in range(8)}
        for num_merges in (0, 3, 99):
            found, _ = learned(exercise.IncrementalTrainer(), words, num_merges)
            assert found == learned(NaiveTrainer(), words, num_merges)[0]


def test_a_merge_reads_only_the_words_with_the_pair():
    rare = {b"x%d" % number: 1 for number in range(1000)}  # no merge changes these words
    words = {b"low": 5000, b"lower": 2000, b"widest": 3000, b"newest": 6000, **rare}
    merges, num_read = learned(exercise.IncrementalTrainer(), words, 6)
    assert merges[-1] == ((b"n", b"e"), 6000)
    assert num_read >= len(words), "count the pairs of every word once, with self.pairs"
    assert num_read <= len(words) + 50, "6 merges change 11 words"
