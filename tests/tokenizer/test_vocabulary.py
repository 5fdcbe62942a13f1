"""Vocabulary: its longest tokens, and the form of its merges."""

from __future__ import annotations

import pytest

from cs336_basics import Tokenizer
from cs336_basics.tokenizer import (
    count_token_file,
    count_tokens,
    encode_file,
    extend,
    prune,
    translate_token_file,
)
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


def test_a_huge_id_in_a_small_vocabulary_takes_no_memory(tmp_path):
    vocab = {**{i: bytes([i]) for i in range(256)}, 2**32 - 6: b"ab"}
    tokenizer = Tokenizer(vocab, [(b"a", b"b")])
    assert tokenizer.encode("ab") == [2**32 - 6]
    text, tokens = tmp_path / "text.txt", tmp_path / "tokens.npy"
    text.write_text("abc")
    encode_file(tokenizer, text, tokens)
    for use in (
        lambda: prune(tokenizer, 256, {b"ab": 1}),
        lambda: count_tokens(tokenizer, text),
        lambda: count_token_file(tokenizer, tokens),
        lambda: translate_token_file(tokens, tmp_path / "new.npy", tokenizer, tokenizer),
    ):
        with pytest.raises(ValueError, match=r"greatest id is 4,294,967,290, .* has 257 tokens"):
            use()
    assert not (tmp_path / "new.npy").exists()


def test_special_tokens_alone_have_no_longest_token():
    assert longest_tokens({0: b"<s>"}, ["<s>"]) == []
