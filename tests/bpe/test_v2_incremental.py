"""v2: after every merge its counts and its index are what counting again gives."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cs336_basics.bpe.v1_naive import NaiveTrainer
from cs336_basics.bpe.v2_incremental import IncrementalTrainer

words = st.lists(
    st.tuples(
        st.text("aab", max_size=9).map(lambda word: tuple(c.encode() for c in word)),
        st.integers(1, 9),
    ),
    max_size=6,
)


@given(words)
def test_counts_and_index_are_those_of_a_recount(words):
    class Watched(IncrementalTrainer):
        def merge(self, words, best, pair_counts):
            new_pairs = super().merge(words, best, pair_counts)
            assert pair_counts == NaiveTrainer().count_pairs(words)
            assert new_pairs == {pair for pair in pair_counts if best[0] + best[1] in pair}
            assert set(self.pair_words) == set(pair_counts)
            for pair, indices in self.pair_words.items():
                holds = (i for i, (symbols, _) in enumerate(words) if pair in pairwise(symbols))
                assert indices == set(holds)
            return new_pairs

    Watched().learn(list(words), 20)
