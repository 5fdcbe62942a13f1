"""The reference functions that merge a pair and merge by rank."""

import pytest

from cs336_basics.bpe.reference import merge_by_rank, merge_pair, split_bytes


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"aa", [b"aa"]),
        (b"aaa", [b"aa", b"a"]),
        (b"baabaa", [b"b", b"aa", b"b", b"aa"]),
        (b"aba", [b"a", b"b", b"a"]),
    ],
)
def test_a_pair_is_merged_from_left_to_right(word, expected):
    assert merge_pair(split_bytes(word), (b"a", b"a")) == tuple(expected)


@pytest.mark.parametrize(
    ("word", "merges", "expected"),
    [
        (b"lower", ["w e", "l o", "lo we"], "lowe r"),
        (b"lower", ["o w", "w e", "l o", "lo we"], "l ow e r"),
        # In `x ab a b`, the pair (ab, a) has rank 0, so it is merged before the second (a, b).
        (b"xabab", ["ab a", "a b"], "x aba b"),
        (b"aaa", ["a a"], "aa a"),
        (b"aaaa", ["a a"], "aa aa"),
        (b"abc", [], "a b c"),
    ],
)
def test_the_leftmost_pair_of_the_lowest_rank_merges_first(word, merges, expected):
    ranks = {tuple(merge.encode().split()): rank for rank, merge in enumerate(merges)}
    assert merge_by_rank(split_bytes(word), ranks) == tuple(expected.encode().split())
