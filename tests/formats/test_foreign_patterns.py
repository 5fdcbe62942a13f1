"""Split patterns are translated only if they mean the same thing in the other library."""

from __future__ import annotations

import contextlib
import random
import time
import warnings

import pytest
import regex

from cs336_basics._support.errors import InputError
from cs336_basics.formats.foreign_patterns import (
    from_fancy_regex,
    from_given_fancy_regex,
    from_oniguruma,
    to_fancy_regex,
    to_oniguruma,
)
from cs336_basics.splitting import reference, splitter
from cs336_basics.splitting.patterns.named_patterns import GPT2, PATTERNS, compile_pattern
from tests.errors import rejects
from tests.splitting.patterns.test_split_program import random_expression
from tests.tokenizer.examples import FRAGMENTS
from tests.tokenizer.test_reference import without_differences

tiktoken = pytest.importorskip("tiktoken")
tokenizers = pytest.importorskip("tokenizers")

PLAIN = [
    *PATTERNS.values(),
    r"\p{N}{1,3}|[^\p{N}]+",
    r" ?[A-Za-z]+|\d{1,2}|[^\sA-Za-z\d]+",
    r"\p{Nd}{2}|(?:ab)+|(x|y)?z|[a-c\-\]]+|\.\*\\|\[\S\]",
    r"a*+a|b++|c?+d|e*?f|(?=g)g|\P{L}",
    r"[\p{L}'-]+|[^\s-]",
]


@pytest.mark.parametrize("number", [150, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("pattern", PLAIN)
def test_plain_patterns_have_the_same_matches_in_all_three_libraries(pattern, number):
    ranks = {bytes([byte]): byte for byte in range(256)}
    dropping = tiktoken.Encoding("", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(to_oniguruma(pattern)), "isolated")
    ours = compile_pattern(pattern)
    chooser = random.Random(0)
    fragments = [without_differences(f) for f in [*FRAGMENTS, "AbC", "'Re", "ab", "xz", "[a]"]]
    for _ in range(number):
        text = "".join(chooser.choice(fragments) for _ in range(chooser.randint(0, 30)))
        found = [match.group() for match in ours.finditer(text)]
        assert list(reference.pretokenize(text, pattern)) == [
            word for word, _ in split.pre_tokenize_str(text)
        ]
        assert bytes(dropping.encode_ordinary(text)) == "".join(found).encode()


def test_text_between_random_matches_is_a_pre_token_in_tokenizers_too():
    rng = random.Random(7)
    num_patterns = 0
    while num_patterns < 150:
        pattern = random_expression(rng)
        try:
            translated = to_oniguruma(pattern)
        except ValueError:  # its syntax may mean something else there
            continue
        num_patterns += 1
        split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(translated), "isolated")
        for _ in range(20):
            text = "".join(rng.choices("aabA \n1é.", k=rng.randrange(14)))
            words = [word for word, _ in split.pre_tokenize_str(text)]
            assert list(splitter.pretokenize(text, pattern)) == words, (pattern, text)
            assert list(reference.pretokenize(text, pattern)) == words, (pattern, text)


@pytest.mark.parametrize(
    "pattern",
    [
        r"\w+|\W",  # `\w` matches different letters and marks
        r"a$|\S+",  # in Oniguruma, also matches before a line feed
        r"^a|\S+",
        r"\p{N}{1,3}+",  # possessive, or a repetition of a repetition
        r"\p{N}{2}?|x",
        r"[a&&b]|c",  # an intersection, or a set of `a`, `&` and `b`
        r"[a~~b]|c",
        r"[[a]]|c",
        r"[\p{L}-']|c",  # an error in Oniguruma and fancy-regex
        r"['-\s]|c",
        r"(?i:ss)|x",  # in Oniguruma, also matches `ß`
        r"(?i)a|b",
        r"(?<=a)b|c",
        r"(?<name>a)|b",
        r"(a)\1|b",
        r"\bword\b|x",
        r"\Aa|b",
        r"\ha",  # a hexadecimal digit, or whitespace
        r"\<a|b",
        r"a.b|.",
        r"a{,3}b",
        r"\p{Alphabetic}+|x",
        r"\p{^L}+|x",
        r"(?x: a b)|c",
        r"(?>a+)b|c",
        r"\x41|b",
        r"(?=\p{Lu})",  # after an empty match, the next search starts at the same place or the next
        r"\(?(?=a)|b",
        r"(?:a?(?=\s|(?!b)))*(?=c)|c",
    ],
)
def test_ambiguous_syntax_is_refused_in_both_directions(pattern):
    regex.compile(pattern)
    for translate in (
        to_oniguruma, to_fancy_regex, from_fancy_regex, from_oniguruma,
    ):  # fmt: skip
        with pytest.raises(InputError):
            translate(pattern)


@pytest.mark.parametrize("read", [from_oniguruma, from_fancy_regex])
def test_a_refused_pattern_is_too_long_or_has_ambiguous_syntax(read):
    with rejects("pattern", "10,000", "10,001"):
        read("a" * 10_001)
    with rejects("pattern", "'a.b'", "regex"):
        read("a.b")


def test_named_patterns_keep_their_names_in_both_directions():
    for name, expression in PATTERNS.items():
        assert from_oniguruma(to_oniguruma(name)) == name
        assert from_fancy_regex(to_fancy_regex(expression)) == name


def test_other_spellings_of_the_pattern_of_gpt2_are_known():
    published = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    brackets = published.replace(r"\p{L}+", r"[\p{L}]+").replace(r" ?\p{N}+", r" ?[\p{N}]+")
    for expression in (GPT2, published, brackets):
        assert from_oniguruma(expression) == "gpt2"
        assert from_fancy_regex(expression) == "gpt2"


def test_the_patterns_of_tiktoken_are_known():
    public = pytest.importorskip("tiktoken_ext.openai_public")
    assert from_fancy_regex(public.r50k_pat_str) == "gpt2"
    source = open(public.__file__, encoding="utf-8").read()  # noqa: SIM115
    (cl100k,) = regex.findall(r'"pat_str": r"""(.*?)"""', source)
    assert from_fancy_regex(cl100k) == "cl100k"


@pytest.mark.parametrize(
    "pattern",
    [
        r"[a-z]+|\p{N}",
        r"(?:a(?=bc))+|[\s\S]",  # it cannot be shown
    ],
)
def test_patterns_are_exchanged_with_tiktoken_only_if_they_match_all_text(pattern):
    for translate in (to_fancy_regex, from_fancy_regex):
        with rejects("pattern", repr(pattern)):
            translate(pattern)
    assert from_oniguruma(to_oniguruma(pattern)) == pattern
    everything = r" ?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+"
    assert from_fancy_regex(to_fancy_regex(everything)) == everything


@pytest.mark.parametrize("pattern", [r"[a-z&&[^aeiou]]+|[^\s&&[a]]", r"\b\w+|\W"])
def test_a_callers_pattern_with_ambiguous_syntax_has_a_warning(pattern):
    with pytest.warns(UserWarning, match="tiktoken"):
        from_given_fancy_regex(pattern)


@pytest.mark.parametrize("pattern", [r"\p{L}+|[\s\S]", r"(?:a+)+|\s", *PATTERNS.values()])
def test_a_callers_pattern_in_shared_syntax_has_no_warning(pattern):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert PATTERNS.get(found := from_given_fancy_regex(pattern), found) == pattern


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?:a+)+b|\s",
        r"(a|aa)+b|\s",
        r"(?:a*b?)*c|\s",
        r"((a?)+)b|x",
        r"\s*\s*\s*x|\S",
        r"a*a*a*a*b|x",
        r"[^b]*[^c]*[^d]*[^e]*z|x",
    ],
)
def test_a_slow_pattern_from_a_file_is_stopped(monkeypatch, pattern):
    monkeypatch.setattr(splitter, "SEARCH_TIMEOUT", 0.2)
    assert from_oniguruma(pattern) == pattern
    for text in ("a" * 3000, " " * 3000, "ab" * 1500):
        start = time.process_time()
        with contextlib.suppress(ValueError):  # the time limit
            list(splitter.pretokenize(text, from_oniguruma(pattern)))
        assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "pattern",
    ["a" * 10_001, "(" * 60 + "a" + ")" * 60, "a{60000}{2}", r"(?:a{900}){900}", "[", "a)", "(?:",
     "", "[]", r"\p{", "*", "a**", "(?!a)", r"\p{Lq}"],
)  # fmt: skip
def test_a_malformed_or_huge_pattern_is_a_value_error(pattern):
    for read in (from_fancy_regex, from_oniguruma):
        with rejects("pattern"):
            read(pattern)
