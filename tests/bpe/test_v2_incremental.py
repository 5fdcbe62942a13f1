"""v2: after every merge, the counts and the index equal those computed from scratch."""

from hypothesis import given
from hypothesis import strategies as st

from cs336_basics.bpe.limits import Limits
from cs336_basics.bpe.rules import LargestPair, Rules
from cs336_basics.bpe.v2_incremental import PairIndex, find_best

words = st.lists(st.text("aab", max_size=9).map(lambda word: tuple(c.encode() for c in word)))


@given(words, st.none() | st.integers(1, 5), st.data())
def test_counts_and_index_equal_a_recount(words, max_token_length, data):
    rules = Rules(20, limits=Limits(max_token_length))
    counts = [data.draw(st.integers(1, 9)) for _ in words]
    index = PairIndex(words, counts, rules)
    for _ in range(rules.num_merges):
        best = find_best(index.pair_counts, LargestPair())
        if best is None:
            break
        if rules.refuse(best, index.pair_counts[best]):
            index.remove(best)
            continue
        holding = [words[i] for i in index.pair_words[best]]
        read, new_pairs = index.merge(best)
        assert read == holding
        recounted = PairIndex(words, counts, rules)
        assert index.pair_counts == recounted.pair_counts
        assert index.pair_words == recounted.pair_words
        assert new_pairs == {pair for pair in index.pair_counts if b"".join(best) in pair}
