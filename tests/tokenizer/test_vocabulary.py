"""Helpers for vocabularies: the longest tokens, and ids with gaps."""

from __future__ import annotations

import random

import pytest

from cs336_basics import Tokenizer
from cs336_basics.tokenizer import (
    count_token_file,
    count_tokens,
    encode_file,
    prune,
    translate_token_file,
)
from cs336_basics.tokenizer._vocabulary import TokenIds
from cs336_basics.tokenizer.vocabulary import longest_tokens
from tests.errors import rejects
from tests.tokenizer.examples import BYTES


def test_longest_tokens_counts_bytes_and_sorts_by_id():
    tokens = {3: "né".encode(), 1: b"<|endoftext|>", 2: b"the", 0: b"a"}
    assert longest_tokens(tokens, ["<|endoftext|>"]) == [b"the", "né".encode()]
    assert longest_tokens(tokens) == [b"<|endoftext|>"]


def test_arrays_are_not_allocated_for_a_huge_id(tmp_path):
    vocab = {**BYTES, 2**32 - 6: b"ab"}
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
        with rejects(None, "4,294,967,290", 257):
            use()
    assert not (tmp_path / "new.npy").exists()


def random_token(chooser):
    return bytes(chooser.choices(b"ab\0", k=chooser.choice([1, 2, 5, 15, 16, 17, 40])))


def test_token_ids_are_those_of_a_dict():
    chooser = random.Random(3)
    for size in (0, 1, 31, 32, 33, 500):
        ids = chooser.sample(range(2**32 - 1), size)
        tokens = dict(zip(ids, {random_token(chooser) for _ in range(size)}, strict=False))
        expected = {token: token_id for token_id, token in tokens.items()}
        found = TokenIds(tokens)
        assert found.is_valid
        for token in [*expected, *(random_token(chooser) for _ in range(200)), b""]:
            assert found.get(token, "none") == expected.get(token, "none")
        pairs = [(random_token(chooser), random_token(chooser)) for _ in range(50)]
        known = [(a, b) for a, b in pairs if {a, b, a + b} <= expected.keys()]
        rows = [[expected[a], expected[b], expected[a + b]] for a, b in known]
        assert found.index_merges(known).tolist() == rows
        assert found.index_merges([list(pair) for pair in known]).tolist() == rows


def test_merges_of_long_tokens_are_indexed():
    parts = [b"x" * length for length in range(1, 60)]
    tokens = dict(enumerate(parts))
    merges = [(parts[i], parts[j]) for i in range(30) for j in range(29)]
    rows = TokenIds(tokens).index_merges(merges).tolist()
    assert rows == [[i, j, i + j + 1] for i in range(30) for j in range(29)]


@pytest.mark.parametrize(
    "tokens",
    [
        *({0: b"a", 1: b"a"}, {0: b""}, {0: "a"}, {"0": b"a"}, {True: b"a"}, {-1: b"a"}),
        *({2**32 - 1: b"a"}, {2**70: b"a"}, {0: bytearray(b"a")}),
    ],
)
def test_an_invalid_vocabulary_has_no_token_ids(tokens):
    found = TokenIds(tokens)
    assert not found.is_valid
    assert found.get(b"a") is None
    assert found.index_merges([]) is None


@pytest.mark.parametrize(
    "merge", [(b"a", b"c"), (b"a", b"a"), (b"a",), "ab", (b"a", "b"), (b"a", b"b", b"c"), None]
)
def test_an_invalid_merge_is_found(merge):
    found = TokenIds({0: b"a", 1: b"b", 2: b"ab"})
    assert found.index_merges([(b"a", b"b"), merge]) is None
