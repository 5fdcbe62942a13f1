"""Exercise 2: ties."""

import itertools

from exercises import ex2_tie as exercise


def test_the_most_frequent_pair_is_found():
    assert exercise.find_best({(b"z", b"z"): 1, (b"a", b"b"): 3, (b"y", b"y"): 2}) == (b"a", b"b")
    assert exercise.find_best({}) is None


def test_the_greatest_pair_wins_a_tie_in_any_order():
    tied = [(b"A", b"B"), (b"A", b"C"), (b"B", b"ZZ"), (b"BA", b"A")]
    for pairs in itertools.permutations(tied):
        assert exercise.find_best(dict.fromkeys(pairs, 7)) == (b"BA", b"A")


def test_pairs_compare_as_tuples_of_bytes():
    left, right = (b"ab", b"b"), (b"a", b"bc")  # but b"abc" > b"abb"
    assert exercise.find_best({left: 2, right: 2}) == left
    assert exercise.find_best({right: 2, left: 2}) == left
    byte, letter = (b"\xff", b"a"), (b"z", b"z")
    assert exercise.find_best({byte: 2, letter: 2}) == byte
