"""Words: the compiled version agrees with the readable one, and both find every mistake."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cs336_basics._support.errors import InputError
from cs336_basics._support.vocabularies import MAX_ID
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.words import CompiledWords, PythonWords, words_of
from tests.tokenizer.examples import BYTES

compiled = pytest.mark.skipif(CompiledWords is None, reason="the extension is not built")


def random_token(chooser):
    return bytes(chooser.choices(b"ab\0", k=chooser.choice([1, 2, 5, 15, 16, 17, 40])))


def assert_equal(found, expected):
    """Check that two Words with the same tokens and merges have the same content."""
    tokens = expected.tokens()
    assert found.tokens() == tokens
    assert [*found.tokens()] == [*tokens]  # in the same order
    assert (len(found), found.size) == (len(expected), expected.size)
    assert found.num_merges == expected.num_merges
    assert found.merge_rows() == expected.merge_rows()
    assert found.merges(tokens) == expected.merges(tokens)


@compiled
@pytest.mark.parametrize("highest", [2000, 2**32 - 2])  # with and without huge gaps
def test_compiled_words_are_those_of_python(highest):
    chooser = random.Random(highest)
    for size in (0, 1, 31, 32, 33, 500):
        ids = chooser.sample(range(highest), size)
        tokens = dict(zip(ids, {random_token(chooser) for _ in range(size)}, strict=False))
        known = set(tokens.values())
        pairs = {(random_token(chooser), random_token(chooser)) for _ in range(200)}
        merges = [(a, b) for a, b in pairs if {a, b, a + b} <= known]
        found, expected = CompiledWords.of(tokens, merges), PythonWords(tokens, merges)
        assert_equal(found, expected)
        assert_equal(CompiledWords.of(tokens, [list(pair) for pair in merges]), expected)
        rows = np.frombuffer(found, np.uint32).reshape(-1, 3).tolist()
        assert list(map(tuple, rows)) == expected.merge_rows()
        for token in [*known, *(random_token(chooser) for _ in range(200)), b""]:
            assert found.get(token, "none") == expected.get(token, "none")
        for token_id in (*ids, *range(5), -1, highest, 2**32 - 1, 2**70):
            assert found.has_id(token_id) == expected.has_id(token_id)


def test_merges_of_long_tokens_are_indexed():
    parts = [b"x" * length for length in range(1, 60)]
    merges = [(parts[i], parts[j]) for i in range(30) for j in range(29)]
    rows = words_of(dict(enumerate(parts)), merges).merge_rows()
    assert rows == [(i, j, i + j + 1) for i in range(30) for j in range(29)]


@pytest.mark.parametrize(
    "tokens",
    [
        *({0: b"a", 1: b"a"}, {0: b""}, {0: "a"}, {"0": b"a"}, {True: b"a"}, {-1: b"a"}),
        *({2**70: b"a"}, {0: bytearray(b"a")}),
    ],
)
def test_an_invalid_vocabulary_is_refused(tokens):
    if CompiledWords is not None:
        assert CompiledWords.of(tokens, []) is None
    with pytest.raises(InputError) as caught:
        words_of(tokens, [])
    assert caught.value.argument == "vocab"


def test_the_highest_id_needs_the_python_words():
    assert CompiledWords is None or CompiledWords.of({MAX_ID: b"a"}, []) is None
    assert words_of({MAX_ID: b"a"}, []).size == MAX_ID + 1
    assert Tokenizer(BYTES | {MAX_ID: b"ab"}, [(b"a", b"b")]).encode("ab") == [MAX_ID]


PARTS = st.sampled_from([b"", b"a", b"b", b"ab", b"aa", b"ba", b"aab", "a", 1, np.bytes_(b"a")])
MERGES = st.lists(st.tuples(PARTS, PARTS) | st.lists(PARTS, max_size=3) | st.just("ab"), max_size=4)
TOKENS = {0: b"a", MAX_ID - 1: b"b", 3: b"ab", 2: b"aa", 7: b"aab"}


@given(MERGES)
@example([(b"a", b"b"), (b"aa", b"b"), [b"a", b"ab"]])
@example([(b"a", b"b"), (b"a", b"a"), (b"a", b"b")])
@example([(np.bytes_(b"a"), b"b")])
def test_valid_merges_are_accepted_and_invalid_ones_explained(merges):
    try:
        expected = PythonWords(TOKENS, merges)
    except InputError as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            words_of(TOKENS, merges)
    else:
        assert_equal(words_of(TOKENS, merges), expected)


@compiled
def test_words_are_made_only_by_their_functions():
    with pytest.raises(TypeError):
        CompiledWords()


@compiled
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=60))
def test_repeated_pairs_are_found_at_any_distance(pairs):
    parts = [b"x" * length for length in range(1, 50)]
    merges = [(parts[left], parts[right]) for left, right in pairs]
    found = CompiledWords.of(dict(enumerate(parts)), merges)
    assert (found is None) == (len(set(pairs)) < len(pairs))
