"""The compiled loops that load a tokenizer, held to the readable ones in Python."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cs336_basics.formats.gpt2 import vocab_files
from cs336_basics.formats.gpt2.byte_strings import byte_of_code, byte_to_character, token_to_string
from cs336_basics.tokenizer import vocabulary
from cs336_basics.tokenizer.vocabulary import MAX_ID

_loading = pytest.importorskip("cs336_basics.tokenizer._loading")

FILE = Path("some.json")
TOKENS = st.binary(max_size=6)
# Characters that represent bytes, and others that are next to them, spaces and line ends.
STRINGS = st.text(
    "".join(byte_to_character().values()) + " \r\n\x7f\xa0\xad\u0144\u0145\u4e00😀", max_size=5
)
IDS = st.integers(-1, 5) | st.sampled_from(
    [MAX_ID, MAX_ID + 1, 2**63, -(2**70), True, 1.0, "1", None]
)


def result_or_error(function, *arguments):
    try:
        return function(*arguments)
    except (TypeError, ValueError) as error:
        return type(error)


@given(st.dictionaries(STRINGS, IDS, max_size=6))
def test_a_compiled_vocabulary_equals_that_of_python(content):
    found = _loading.vocab_of_strings(content, byte_of_code(), MAX_ID)
    expected = result_or_error(vocab_files._vocab_of_strings, content, FILE)
    if found is None:  # an error, or a token that is written as text
        assert expected is ValueError or any(
            token_to_string(token) not in content for token in expected.values()
        )
    else:
        assert found == expected
        assert list(found) == list(expected)


LINES = st.lists(STRINGS | st.tuples(STRINGS, STRINGS).map(" ".join), max_size=6)


@given(
    st.sampled_from(["", "#version: 0.2\n", "#version:", "#version: 😀\r\n"]),
    LINES,
    st.sampled_from(["\n", "\r\n"]),
)
@example("", ["a b", "c d"], "\r\n")
@example("", ["a b", "", ""], "\n")
@example("", ["a b", "", "c d"], "\n")
@example("", ["a b ", " c"], "\n")
@example("#version:", ["a b", "c d\r"], "\n")
def test_compiled_merges_equal_those_of_python(first, lines, line_end):
    text = first + line_end.join(lines)
    found = _loading.merges_of_text(text, byte_of_code())
    expected = result_or_error(vocab_files._merges_of_text, text, FILE)
    assert expected is ValueError if found is None else found == expected


PARTS = st.sampled_from([b"", b"a", b"b", b"ab", b"aa", b"ba", b"aab", "a", 1, np.bytes_(b"a")])
MERGES = st.lists(st.tuples(PARTS, PARTS) | st.lists(PARTS, max_size=3) | st.just("ab"), max_size=4)
TOKEN_IDS = {b"a": 0, b"b": MAX_ID, b"ab": 3, b"aa": 2, b"aab": 7}


@given(MERGES)
@example([(b"a", b"b"), (b"aa", b"b"), [b"a", b"ab"]])
def test_compiled_ids_of_merges_equal_those_of_python(merges):
    found = _loading.index_merges(merges, TOKEN_IDS)
    in_python = vocabulary.index_merges(merges, TOKEN_IDS)
    assert (found is None) == (in_python is None)
    expected = result_or_error(vocabulary._index_merges_one_by_one, merges, TOKEN_IDS)
    if found is not None and not vocabulary._has_repeated_pairs(found):
        assert found.dtype == in_python.dtype == expected.dtype
        np.testing.assert_array_equal(found, in_python)
        np.testing.assert_array_equal(found, expected)
    else:
        of_a_subclass = any(type(token) is np.bytes_ for merge in merges for token in merge)
        assert of_a_subclass or expected in (TypeError, ValueError)


@given(st.lists(st.tuples(st.integers(0, MAX_ID), st.integers(0, MAX_ID)) | st.just((1, MAX_ID))))
def test_repeated_pairs_are_found_at_any_distance(pairs):
    ids = np.array([(left, right, 0) for left, right in pairs], np.uint32).reshape(-1, 3)
    assert vocabulary._has_repeated_pairs(ids) == (len(set(pairs)) < len(pairs))


@given(st.dictionaries(st.integers(-3, 2**70), TOKENS), st.lists(st.tuples(TOKENS, TOKENS)))
def test_compiled_hash_lines_equal_those_of_python(vocab, merges):
    arguments = (list(vocab), list(vocab.values()), merges)
    assert _loading.hash_lines(*arguments) == vocab_files.hash_lines(*arguments)
