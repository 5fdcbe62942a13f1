"""v3: every pair always has a heap entry whose count is at least the current count."""

from hypothesis import given
from hypothesis import strategies as st

from cs336_basics.bpe.v3_heap import HeapTrainer

words = st.lists(st.text("aab", max_size=9).map(lambda word: tuple(c.encode() for c in word)))


@given(words, st.data())
def test_every_pair_has_an_entry_that_is_not_too_low(words, data):
    class Watched(HeapTrainer):
        def find_best(self, pair_counts):
            highest = {}
            for entry in self.heap:
                highest[entry.pair] = max(entry.count, highest.get(entry.pair, 0))
            assert all(highest[pair] >= count for pair, count in pair_counts.items())
            best = super().find_best(pair_counts)
            assert best is None or pair_counts[best] == max(pair_counts.values())
            return best

    trainer = Watched()
    trainer.counts = [data.draw(st.integers(1, 9)) for _ in words]
    trainer.learn(list(words), 20)
