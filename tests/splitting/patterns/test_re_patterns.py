"""Split patterns in `re`, compared with the `regex` module."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs336_basics.splitting.patterns.named_patterns import PATTERNS, compile_pattern
from cs336_basics.splitting.patterns.pattern_syntax import UnsupportedPatternError
from cs336_basics.splitting.patterns.re_patterns import re_pattern

NAMES = [name for name in PATTERNS if not name.endswith("-right")]
CHARACTERS = "aZſıß'sdll 猫Ⅻ١2345_-/\t\r\n\u00a0\u200b\u0301🐈!"


def words(pattern, text):
    return [(match.start(), match.group()) for match in pattern.finditer(text)]


@pytest.mark.parametrize("name", NAMES)
def test_the_pretokens_are_those_of_regex(name):
    expected, found = compile_pattern(PATTERNS[name]), re_pattern(PATTERNS[name])

    @given(st.text(st.sampled_from(CHARACTERS) | st.characters(), max_size=30))
    def check(text):
        assert words(found, text) == words(expected, text)

    check()


@pytest.mark.parametrize("pattern", [r"a+$|[a\n]", r"a+\Z|[a\n]", r"\n+(?!a)|[a\n]"])
def test_the_end_of_the_text_is_that_of_regex(pattern):
    expected, found = compile_pattern(pattern), re_pattern(pattern)
    for length in range(6):
        for characters in itertools.product("a\n", repeat=length):
            text = "".join(characters)
            assert words(found, text) == words(expected, text), repr(text)


def test_a_pattern_outside_the_subset_is_an_error():
    with pytest.raises(UnsupportedPatternError):
        re_pattern(PATTERNS["gpt2-digits3-right"])
