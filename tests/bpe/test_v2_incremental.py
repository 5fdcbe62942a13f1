"""v2: after every merge, the counts and the index equal those computed from scratch."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cs336_basics.bpe.v1_naive import NaiveTrainer
from cs336_basics.bpe.v2_incremental import IncrementalTrainer

words = st.lists(st.text("aab", max_size=9).map(lambda word: tuple(c.encode() for c in word)))


@given(words, st.data())
def test_counts_and_index_equal_a_recount(words, data):
    class Watched(IncrementalTrainer):
        def merge(self, words, best, pair_counts):
            new_pairs = super().merge(words, best, pair_counts)
            assert pair_counts == NaiveTrainer.count_pairs(self, words)
            assert new_pairs == {pair for pair in pair_counts if best[0] + best[1] in pair}
            assert set(self.pair_words) == set(pair_counts)
            for pair, indices in self.pair_words.items():
                holds = (i for i, symbols in enumerate(words) if pair in pairwise(symbols))
                assert indices == set(holds)
            return new_pairs

    trainer = Watched()
    trainer.counts = [data.draw(st.integers(1, 9)) for _ in words]
    trainer.learn(list(words), 20)
