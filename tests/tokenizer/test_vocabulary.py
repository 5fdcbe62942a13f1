"""Vocabulary: the longest tokens, and checks of the merges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cs336_basics import Tokenizer
from cs336_basics._support.vocabularies import MAX_ID, checked_merge_ids
from cs336_basics.tokenizer import (
    count_token_file,
    count_tokens,
    encode_file,
    extend,
    prune,
    translate_token_file,
    vocabulary,
)
from cs336_basics.tokenizer.vocabulary import longest_tokens
from tests.tokenizer.examples import BYTES


def test_longest_tokens_counts_bytes_and_sorts_by_id():
    tokens = {3: "né".encode(), 1: b"<|endoftext|>", 2: b"the", 0: b"a"}
    assert longest_tokens(tokens, ["<|endoftext|>"]) == [b"the", "né".encode()]
    assert longest_tokens(tokens) == [b"<|endoftext|>"]


def test_merges_given_as_lists_become_tuples():
    vocab = {**BYTES, 256: b"ab", 257: b"abc"}
    merges = [[b"a", b"b"], (b"ab", b"c")]
    tokenizer = Tokenizer(vocab, merges)
    assert tokenizer.merges == [(b"a", b"b"), (b"ab", b"c")]
    reference = Tokenizer(vocab, merges, backend="reference")
    assert reference.encode("abcab") == tokenizer.encode("abcab") == [257, 256]
    assert extend(tokenizer, ["abcd"]).encode("abcd") == [258]


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
        with pytest.raises(ValueError, match=r"highest id is 4,294,967,290, .* 257 tokens"):
            use()
    assert not (tmp_path / "new.npy").exists()


def result_or_error(function, *arguments):
    try:
        return function(*arguments)
    except (TypeError, ValueError) as error:
        return type(error)


PARTS = st.sampled_from([b"", b"a", b"b", b"ab", b"aa", b"ba", b"aab", "a", 1, np.bytes_(b"a")])
MERGES = st.lists(st.tuples(PARTS, PARTS) | st.lists(PARTS, max_size=3) | st.just("ab"), max_size=4)
TOKEN_IDS = {b"a": 0, b"b": MAX_ID, b"ab": 3, b"aa": 2, b"aab": 7}


@pytest.mark.skipif(vocabulary.index_merges is None, reason="the extensions are not built")
@given(MERGES)
@example([(b"a", b"b"), (b"aa", b"b"), [b"a", b"ab"]])
def test_compiled_and_python_merge_ids_are_equal(merges):
    found = vocabulary.index_merges(merges, TOKEN_IDS)
    expected = result_or_error(checked_merge_ids, merges, TOKEN_IDS)
    if found is not None and not vocabulary._has_repeated_pairs(found):
        assert found.dtype == np.uint32
        assert list(map(tuple, found.tolist())) == expected
    else:
        of_a_subclass = any(type(token) is np.bytes_ for merge in merges for token in merge)
        assert of_a_subclass or issubclass(expected, ValueError)


@given(st.lists(st.tuples(st.integers(0, MAX_ID), st.integers(0, MAX_ID)) | st.just((1, MAX_ID))))
def test_repeated_pairs_are_found_at_any_distance(pairs):
    ids = np.array([(left, right, 0) for left, right in pairs], np.uint32).reshape(-1, 3)
    assert vocabulary._has_repeated_pairs(ids) == (len(set(pairs)) < len(pairs))
