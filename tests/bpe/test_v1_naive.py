"""v1: the yielded merges. `test_base.py` compares them with the merges of the other trainers."""

from contextlib import nullcontext

from cs336_basics.bpe.rules import Rules
from cs336_basics.bpe.trace import Work
from cs336_basics.bpe.v1_naive import NaiveTrainer


def test_merges_are_yielded_until_no_pair_is_left():
    words = [(b"a", b"b", b"a", b"b"), (b"a", b"a", b"a")]
    learned = NaiveTrainer().learn(words, [3, 2], Rules(2), nullcontext)
    pair, count, work = next(learned)
    assert (pair, count) == ((b"a", b"b"), 6)
    assert work() == Work(2, 2, 7, 3, 5)
    assert [pair for pair, *_ in learned] == [(b"a", b"a"), (b"ab", b"ab"), (b"aa", b"a")]
