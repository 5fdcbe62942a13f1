"""The reference encoder, which every other encoder is tested against: examples worked by hand."""

from __future__ import annotations

from cs336_basics.tokenizer.reference import (
    encode_text,
    merge_pretoken,
    merge_pretoken_in_order,
)
from tests.tokenizer.examples import COURSE_MERGES, COURSE_VOCAB, TRAINING_TEXT, trained


def test_the_example_of_the_course_is_encoded():
    assert encode_text("the cat ate", COURSE_VOCAB, COURSE_MERGES) == [9, 7, 1, 5, 10, 3]


def test_the_lowest_rank_merges_first():
    # "lower" with the merges of Sennrich et al.'s kind: (w, e) before (l, o), then (lo, we).
    ranks = {(b"w", b"e"): 0, (b"l", b"o"): 1, (b"lo", b"we"): 2}
    assert merge_pretoken(b"lower", ranks) == [b"lowe", b"r"]
    assert merge_pretoken(b"lower", {(b"o", b"w"): 0, **{p: r + 1 for p, r in ranks.items()}}) == [
        b"l", b"ow", b"e", b"r",
    ]  # fmt: skip


def test_a_new_pair_of_lower_rank_merges_before_the_next_occurrence():
    # After `x ab a b` the pair (ab, a) has rank 0. GPT-2's encoder would first merge both (a, b).
    ranks = {(b"ab", b"a"): 0, (b"a", b"b"): 1}
    assert merge_pretoken(b"xabab", ranks) == [b"x", b"aba", b"b"]
    assert merge_pretoken(b"aaa", {(b"a", b"a"): 0}) == [b"aa", b"a"]


def test_the_longest_special_token_is_cut_out_first():
    vocab = {**COURSE_VOCAB, 11: b"tt", 12: b"tta"}
    ids = encode_text("ttattec", vocab, COURSE_MERGES, ["tt", "tta"])
    assert ids == [12, 11, 3, 2]


def test_merges_in_order_give_the_same_tokens_in_a_trained_vocabulary():
    vocab, merges = trained()
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    for word in {*TRAINING_TEXT.split(" "), "aaaaaaaa", "hahahaha", " \n\r\t.", ""}:
        expected = merge_pretoken(word.encode(), ranks)
        assert merge_pretoken_in_order(word.encode(), merges) == expected
        assert set(expected) <= set(vocab.values())
    # In an edited vocabulary they may differ: the pair (ab, c) is formed after its rank has passed.
    edited = [(b"ab", b"c"), (b"a", b"b")]
    assert merge_pretoken_in_order(b"abc", edited) == [b"ab", b"c"]
    assert merge_pretoken(b"abc", {pair: rank for rank, pair in enumerate(edited)}) == [b"abc"]
