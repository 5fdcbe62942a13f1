"""Vocabulary: its longest tokens."""

from __future__ import annotations

from cs336_basics.tokenizer.vocabulary import longest_tokens


def test_the_longest_tokens_are_those_with_the_most_bytes_in_the_order_of_ids():
    tokens = {3: "né".encode(), 1: b"<|endoftext|>", 2: b"the", 0: b"a"}
    assert longest_tokens(tokens, ["<|endoftext|>"]) == [b"the", "né".encode()]
    assert longest_tokens(tokens) == [b"<|endoftext|>"]


def test_special_tokens_alone_have_no_longest_token():
    assert longest_tokens({0: b"<s>"}, ["<s>"]) == []
