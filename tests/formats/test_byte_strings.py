"""The byte alphabet: the compiled and Python code give the same tokens, merges and errors."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cs336_basics._support.byte_alphabet import character_to_byte
from cs336_basics._support.errors import InputError
from cs336_basics._support.vocabularies import MAX_ID
from cs336_basics.formats import byte_strings
from cs336_basics.formats.byte_strings import (
    merges_of_lines,
    merges_of_strings,
    string_to_token,
    strings_to_tokens,
    token_to_string,
    vocab_of_strings,
)
from tests.errors import rejects

# The alphabet, and neighboring characters that do not represent bytes.
CHARACTERS = st.sampled_from([*character_to_byte(), *" \r\n\x7f\xa0\xad\u0144\u0145\u4e00😀\ud800"])
STRINGS = st.text(CHARACTERS, max_size=6)


@given(st.lists(st.binary(max_size=8)))
def test_every_token_has_a_string(tokens):
    strings = [token_to_string(token) for token in tokens]
    assert strings_to_tokens(strings) == tokens
    assert list(map(string_to_token, strings)) == tokens


def one_by_one(string):
    try:
        return string_to_token(string)
    except KeyError:
        return None


@pytest.fixture(params=["built", "not built"])
def loading(request, monkeypatch):
    """Test the compiled loops, and the Python code that replaces them if they are not built."""
    if request.param == "not built":
        monkeypatch.setattr(byte_strings, "_byte_strings", None)
    elif byte_strings._byte_strings is None:
        pytest.skip("the extensions are not built")


EITHER_WAY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@EITHER_WAY
@given(st.lists(STRINGS, max_size=8))
def test_lists_of_strings_give_the_same_tokens_as_single_strings(loading, strings):
    assert strings_to_tokens(strings) == [one_by_one(string) for string in strings]


ITEMS = (
    STRINGS
    | st.tuples(STRINGS, STRINGS).map(" ".join)
    | st.lists(STRINGS | st.integers(), max_size=3)
    | st.none()
)


def expected_merge(item):
    """Return the merge that an item represents, or None if the item is invalid."""
    strings = item.split(" ") if isinstance(item, str) else item
    if not isinstance(strings, list) or len(strings) != 2:
        return None
    tokens = [one_by_one(string) if isinstance(string, str) else None for string in strings]
    return tuple(tokens) if all(tokens) else None


@EITHER_WAY
@given(st.lists(ITEMS, max_size=5) | st.lists(st.tuples(STRINGS, STRINGS).map(list)))
def test_all_merges_are_read_or_the_first_invalid_one_is_named(loading, items):
    expected = [expected_merge(item) for item in items]
    if None in expected:
        with rejects(None, f"merge {expected.index(None)}"):
            merges_of_strings(items, "merge {}".format)
    else:
        assert merges_of_strings(items, "merge {}".format) == expected


@EITHER_WAY
@given(st.lists(STRINGS | st.tuples(STRINGS, STRINGS).map(" ".join), min_size=1, max_size=5))
def test_merges_of_lines_equal_merges_of_strings(loading, lines):
    text = "\n".join(lines) or "x"
    try:
        expected = merges_of_strings(text.split("\n"), "merge {}".format)
    except ValueError as error:
        with rejects(None, str(error).partition(" must")[0]):
            merges_of_lines(text, "merge {}".format)
    else:
        assert merges_of_lines(text, "merge {}".format) == expected


@given(
    st.dictionaries(
        STRINGS.filter(lambda string: "\ud800" not in string),
        st.integers(-1, 5) | st.sampled_from([MAX_ID, MAX_ID + 1, -(2**70), True, 1.0, "1", None]),
        max_size=6,
    ),
    st.booleans(),
)
def test_a_vocabulary_is_read_completely_or_refused(strings, plain_text):
    tokens = {string: one_by_one(string) for string in strings}
    ids = list(strings.values())
    good = all(type(i) is int and 0 <= i <= MAX_ID for i in ids) and len(set(ids)) == len(ids)
    if good and (plain_text or None not in tokens.values()):
        expected = {
            i: string.encode() if tokens[string] is None else tokens[string]
            for string, i in strings.items()
        }
        assert vocab_of_strings(strings, plain_text=plain_text) == expected
    else:
        with pytest.raises(InputError):
            vocab_of_strings(strings, plain_text=plain_text)
