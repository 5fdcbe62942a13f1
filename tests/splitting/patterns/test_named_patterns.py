"""The named patterns split text like the published ones, and invalid patterns raise errors."""

import itertools

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from cs336_basics._support.errors import InputTypeError
from cs336_basics.splitting import PATTERNS, pretokenize, reference, resolve_pattern
from cs336_basics.splitting.patterns.named_patterns import SEARCHED, compile_pattern
from cs336_basics.splitting.splitter import search_pretokens
from tests.errors import rejects

# Patterns as published by CS336 and by tiktoken 0.14 (`tiktoken_ext.openai_public`).
COURSE_GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
TIKTOKEN = {
    "gpt2": r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s""",
    "cl100k": (
        r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"""
        r"""| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
    ),
    "o200k": (
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"""
        r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"""
        r"""[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"""
        r"""| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
    ),
}

texts = st.text(
    st.one_of(
        st.sampled_from("abs'’ltverdm \t\n\r\u00a0\u3000\u2028\u0085\x1c.,!-1²٣éſK好"),
        st.characters(codec="utf-8"),
    ),
    max_size=40,
)


def test_gpt2_is_the_course_pattern():
    assert PATTERNS["gpt2"] == COURSE_GPT2


@pytest.mark.parametrize("name", TIKTOKEN)
@given(text=texts)
def test_matches_equal_those_of_tiktokens_pattern(name, text):
    assert list(pretokenize(text, name)) == regex.findall(TIKTOKEN[name], text)


@pytest.mark.parametrize("name", TIKTOKEN)
def test_matches_equal_those_of_tiktokens_pattern_on_all_short_strings(name):
    theirs = regex.compile(TIKTOKEN[name])
    for length in range(1, 6):
        for characters in itertools.product("as \n\r.1'", repeat=length):
            text = "".join(characters)
            assert list(pretokenize(text, name)) == theirs.findall(text), repr(text)


@pytest.mark.parametrize("name", TIKTOKEN)
@given(text=st.text(st.sampled_from("abs'Ttl \t\n\r.,1好é"), max_size=30))
def test_pretokens_equal_those_of_tiktokens_engine(name, text):
    # Every pre-token becomes a token, so tiktoken returns one id per pre-token if and only if it
    # splits the text at the same places.
    pretokens = list(pretokenize(text, name))
    ranks = {bytes([byte]): byte for byte in range(256)}
    for pretoken in pretokens:
        ranks.setdefault(pretoken.encode(), len(ranks))
    tiktoken = pytest.importorskip("tiktoken")
    encoding = tiktoken.Encoding(
        name, pat_str=TIKTOKEN[name], mergeable_ranks=ranks, special_tokens={}
    )
    assert encoding.encode_ordinary(text) == [ranks[pretoken.encode()] for pretoken in pretokens]


@pytest.mark.parametrize("name", PATTERNS)
@given(text=texts)
def test_joined_pretokens_are_the_text(name, text):
    assert "".join(pretokenize(text, name)) == text


@pytest.mark.parametrize(
    ("name", "pretokens"),
    [
        ("gpt2-digits1", ["a", " 1", "2", "3", "4", "5", "6", "7", " x"]),
        ("gpt2-digits3", ["a", " 123", "456", "7", " x"]),
        ("gpt2-digits3-right", ["a", " 1", "234", "567", " x"]),
        ("cl100k-digits3-right", ["a", " ", "1", "234", "567", " x"]),
        ("llama3", ["a", " ", "123", "456", "7", " x"]),
        ("llama3-digits3-right", ["a", " ", "1", "234", "567", " x"]),
        ("qwen2", ["a", " ", "1", "2", "3", "4", "5", "6", "7", " x"]),
        ("o200k", ["a", " ", "123", "456", "7", " x"]),
        ("o200k-digits3-right", ["a", " ", "1", "234", "567", " x"]),
        ("deepseek-v3", ["a", " ", "123", "456", "7", " x"]),
    ],
)
def test_named_patterns_split_numbers_as_published(name, pretokens):
    assert list(pretokenize("a 1234567 x", name)) == pretokens


@given(text=st.text(st.sampled_from("ab '.,1½好ー・あ\u3040\u0301\u200b\n\r\0"), max_size=20))
def test_deepseek_v3_splits_like_its_three_published_steps(text):
    tokenizers = pytest.importorskip("tokenizers")
    steps = [
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(expression), "isolated")
        for expression in (
            r"\p{N}{1,3}",
            "[一-龥\u3040-ゟ゠-ヿ]+",
            r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
            r"""|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+"""
            r"""|\s+(?!\S)|\s+""",
        )
    ]
    found = tokenizers.pre_tokenizers.Sequence(steps).pre_tokenize_str(text)
    assert list(pretokenize(text, "deepseek-v3")) == [pretoken for pretoken, _ in found]


@pytest.mark.parametrize("pattern", ["(unclosed", "a*", r"\s*|\w+", r"(?r)\w+"])
def test_messages_include_the_bad_pattern(pattern):
    with rejects("pattern", repr(pattern)):
        resolve_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("cl100k_base", "'cl100k'"),
        ("CL100K", "'cl100k'"),
        ("gpt2 ", "'gpt2'"),
        ("hello world", ", ".join(PATTERNS)),
    ],
)
def test_a_misspelt_name_is_not_taken_for_an_expression(pattern, hint):
    with rejects("pattern", repr(pattern), hint, f"'(?:{pattern})'"):
        resolve_pattern(pattern)
    # The suggested expression works.
    assert list(pretokenize(f"a{pattern}b", f"(?:{pattern})")) == ["a", pattern, "b"]


@pytest.mark.parametrize("pattern", [".", "...", ",", "a|b", "[ab]", r"\w", "a+"])
def test_a_pattern_with_an_operator_or_without_letters_is_an_expression(pattern):
    assert resolve_pattern(pattern) == pattern


def test_the_error_for_a_bad_expression_has_the_position_in_the_expression():
    with rejects("pattern", "at position 1"):
        resolve_pattern("(")


def test_a_pattern_must_be_a_str():
    with rejects("pattern", ", ".join(PATTERNS), kind=InputTypeError):
        resolve_pattern(["gpt2"])


def test_a_pattern_that_never_ends_on_the_empty_string_raises():
    with rejects("pattern", "more than a second"):
        resolve_pattern(r"(?V1:$*|(\p{N}#)+)++(?b:^| ){5,9}?(\S{e<=1}\X*)+")


FROM_THE_RIGHT = [name for name in PATTERNS if name.endswith("-right")]


@pytest.mark.parametrize("name", FROM_THE_RIGHT)
@given(text=st.text(st.sampled_from("1234567²Ⅻ١ab' .\n"), max_size=40))
def test_a_number_is_cut_from_the_right_without_looking_at_every_digit_again(name, text):
    assert list(search_pretokens(text, name)) == list(reference.pretokenize(text, name))


# Each length has another first group.
LENGTHS = [1_000_001, *(pytest.param(n, marks=pytest.mark.slow) for n in (1_000_000, 1_000_002))]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", FROM_THE_RIGHT)
def test_a_long_number_takes_linear_time(name, length):
    found = compile_pattern(SEARCHED[name]).finditer("7" * length, timeout=5)
    assert sum(1 for _ in found) == (length + 2) // 3  # in quadratic time, 12 seconds
