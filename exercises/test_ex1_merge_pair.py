"""Exercise 1: merge_pair."""

import itertools

from exercises import ex1_merge_pair as exercise


def word(text):
    return tuple(text.encode().split())


def test_every_occurrence_is_merged():
    assert exercise.merge_pair(word("l o w"), (b"l", b"o")) == word("lo w")
    assert exercise.merge_pair(word("a b x a b"), (b"a", b"b")) == word("ab x ab")
    assert exercise.merge_pair(word("n e w est"), (b"w", b"est")) == word("n e west")


def test_a_word_without_the_pair_does_not_change():
    for text in ("", "a", "b a", "ab", "a c b"):
        assert exercise.merge_pair(word(text), (b"a", b"b")) == word(text)


def test_a_new_token_is_not_merged_again():
    assert exercise.merge_pair(word("a a a"), (b"a", b"a")) == word("aa a")
    assert exercise.merge_pair(word("a a a a"), (b"a", b"a")) == word("aa aa")
    assert exercise.merge_pair(word("aa a a"), (b"a", b"a")) == word("aa aa")


def test_the_bytes_of_a_word_do_not_change():
    for symbols in itertools.product((b"a", b"b", b"ab"), repeat=5):
        merged = exercise.merge_pair(symbols, (b"a", b"b"))
        assert b"".join(merged) == b"".join(symbols)
        assert (b"a", b"b") not in itertools.pairwise(merged)
