"""v3: every pair always has a heap entry whose count is at least the current count."""

from hypothesis import given
from hypothesis import strategies as st

from cs336_basics.bpe.rules import LargestPair, Rules
from cs336_basics.bpe.v2_incremental import PairIndex, find_best
from cs336_basics.bpe.v3_heap import PairHeap

words = st.lists(st.text("aab", max_size=9).map(lambda word: tuple(c.encode() for c in word)))


@given(words, st.data())
def test_every_pair_has_an_entry_that_is_not_too_low(words, data):
    index = PairIndex(words, [data.draw(st.integers(1, 9)) for _ in words], Rules(20))
    heap = PairHeap(index.pair_counts, LargestPair())
    for _ in range(20):
        highest = {}
        for entry in heap.entries:
            highest[entry.pair] = max(entry.count, highest.get(entry.pair, 0))
        assert all(highest[pair] >= count for pair, count in index.pair_counts.items())
        expected = find_best(index.pair_counts, LargestPair())
        assert heap.pop() == expected
        if expected is None:
            break
        heap.push(index.merge(expected)[1])
