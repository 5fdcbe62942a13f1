"""Vocabulary: its longest tokens, and the form of its merges."""

from __future__ import annotations

from cs336_basics import Tokenizer
from cs336_basics.tokenizer import extend
from cs336_basics.tokenizer.vocabulary import longest_tokens


def test_the_longest_tokens_are_those_with_the_most_bytes_in_the_order_of_ids():
    tokens = {3: "né".encode(), 1: b"<|endoftext|>", 2: b"the", 0: b"a"}
    assert longest_tokens(tokens, ["<|endoftext|>"]) == [b"the", "né".encode()]
    assert longest_tokens(tokens) == [b"<|endoftext|>"]


def test_merges_given_as_lists_become_tuples():
    vocab = {**{i: bytes([i]) for i in range(256)}, 256: b"ab", 257: b"abc"}
    merges = [[b"a", b"b"], (b"ab", b"c")]
    tokenizer = Tokenizer(vocab, merges)
    assert tokenizer.merges == [(b"a", b"b"), (b"ab", b"c")]
    reference = Tokenizer(vocab, merges, backend="reference")
    assert reference.encode("abcab") == tokenizer.encode("abcab") == [257, 256]
    assert extend(tokenizer, ["abcd"]).encode("abcd") == [258]


def test_special_tokens_alone_have_no_longest_token():
    assert longest_tokens({0: b"<s>"}, ["<s>"]) == []
