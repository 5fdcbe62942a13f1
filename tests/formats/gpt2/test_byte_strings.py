"""Bytes as printable text: all at once as one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs336_basics.formats.gpt2.byte_strings import (
    character_to_byte,
    string_to_token,
    strings_to_tokens,
    token_to_string,
)

characters = st.sampled_from([*character_to_byte(), " ", "\n", "\xad", "\u0144", "😀", "\ud800"])


def one_by_one(string):
    try:
        return string_to_token(string)
    except KeyError:
        return None


@given(st.lists(st.text(characters, max_size=6), max_size=8))
def test_all_at_once_gives_what_one_by_one_gives(strings):
    assert strings_to_tokens(strings) == [one_by_one(string) for string in strings]


@given(st.lists(st.binary(max_size=8)))
def test_every_token_has_a_string(tokens):
    assert strings_to_tokens([token_to_string(token) for token in tokens]) == tokens


def test_a_character_that_represents_no_byte_is_named():
    with pytest.raises(KeyError, match="é "[1]):
        string_to_token("é x")
