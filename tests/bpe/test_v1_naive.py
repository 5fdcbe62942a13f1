"""v1: the trainer's steps. `test_base.py` compares the merges with those of the other trainers."""

from cs336_basics.bpe.v1_naive import NaiveTrainer

WORDS = [(b"a", b"b", b"a", b"b"), (b"a", b"a", b"a")]


def test_the_steps_count_find_and_merge():
    trainer = NaiveTrainer()
    trainer.counts = [3, 2]
    counts = trainer.count_pairs(WORDS)
    assert counts == {(b"a", b"b"): 6, (b"b", b"a"): 3, (b"a", b"a"): 4}
    assert trainer.find_best(counts) == (b"a", b"b")
    assert trainer.merge(WORDS, (b"a", b"a")) == [WORDS[0], (b"aa", b"a")]
    assert trainer.learn(WORDS, 2) == [(b"a", b"b"), (b"a", b"a")]
    assert trainer.find_best({}) is None
