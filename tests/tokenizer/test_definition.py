"""TokenizerDefinition: one value that says everything which determines ids."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cs336_basics import Tokenizer
from cs336_basics._support.vocabularies import MAX_ID, checked_merge_ids
from cs336_basics.tokenizer import definition, extend
from cs336_basics.tokenizer.definition import TokenizerDefinition
from tests.tokenizer.examples import BYTES, END, small_tokenizer


def test_a_definition_equals_its_copies_and_pickles():
    first = small_tokenizer().definition
    assert first == TokenizerDefinition(**first.arguments())
    for other in (copy.copy(first), copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        assert other == first
        assert other.digest == first.digest
    for change in ({"pattern": "cl100k"}, {"ignore_merges": True}, {"special_tokens": []}):
        assert first.replaced(**change) != first
    assert first != "a definition"


def test_changes_return_a_new_definition():
    first = small_tokenizer().definition
    before = first.arguments()
    more = first.with_special_tokens(["<pad>"])
    assert more.special_ids == more.added_ids == {END: first.special_ids[END], "<pad>": first.size}
    assert (first.arguments(), first.size) == (before, more.size - 1)


def test_a_tokenizer_is_made_of_a_definition():
    small = small_tokenizer()
    tokenizer = Tokenizer.of(small.definition, "my/tokenizer", backend=small.backend)
    assert tokenizer.definition is small.definition
    assert tokenizer.source == "my/tokenizer"
    assert tokenizer.encode(f"the cat{END}") == small.encode(f"the cat{END}")


def test_merges_given_as_lists_become_tuples():
    vocab = {**BYTES, 256: b"ab", 257: b"abc"}
    merges = [[b"a", b"b"], (b"ab", b"c")]
    tokenizer = Tokenizer(vocab, merges)
    assert tokenizer.merges == [(b"a", b"b"), (b"ab", b"c")]
    reference = Tokenizer(vocab, merges, backend="reference")
    assert reference.encode("abcab") == tokenizer.encode("abcab") == [257, 256]
    assert extend(tokenizer, ["abcd"]).encode("abcd") == [258]


def result_or_error(function, *arguments):
    try:
        return function(*arguments)
    except (TypeError, ValueError) as error:
        return type(error)


PARTS = st.sampled_from([b"", b"a", b"b", b"ab", b"aa", b"ba", b"aab", "a", 1, np.bytes_(b"a")])
MERGES = st.lists(st.tuples(PARTS, PARTS) | st.lists(PARTS, max_size=3) | st.just("ab"), max_size=4)
TOKEN_IDS = {b"a": 0, b"b": MAX_ID - 1, b"ab": 3, b"aa": 2, b"aab": 7}


@pytest.mark.skipif(definition.TokenIds is None, reason="the extensions are not built")
@given(MERGES)
@example([(b"a", b"b"), (b"aa", b"b"), [b"a", b"ab"]])
def test_compiled_and_python_merge_ids_are_equal(merges):
    tokens = {token_id: token for token, token_id in TOKEN_IDS.items()}
    found = definition.TokenIds(tokens).index_merges(merges)
    expected = result_or_error(checked_merge_ids, merges, TOKEN_IDS)
    if found is not None and not definition._has_repeated_pairs(found):
        assert found.dtype == np.uint32
        assert list(map(tuple, found.tolist())) == expected
    else:
        of_a_subclass = any(type(token) is np.bytes_ for merge in merges for token in merge)
        assert of_a_subclass or issubclass(expected, ValueError)


@given(st.lists(st.tuples(st.integers(0, MAX_ID), st.integers(0, MAX_ID)) | st.just((1, MAX_ID))))
def test_repeated_pairs_are_found_at_any_distance(pairs):
    ids = np.array([(left, right, 0) for left, right in pairs], np.uint32).reshape(-1, 3)
    assert definition._has_repeated_pairs(ids) == (len(set(pairs)) < len(pairs))
