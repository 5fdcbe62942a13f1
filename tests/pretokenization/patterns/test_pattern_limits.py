"""Limits on regular expressions: hostile ones are refused at once, usual ones are accepted."""

import time

import pytest

from cs336_basics.pretokenization.patterns.named_patterns import compile_pattern
from cs336_basics.pretokenization.patterns.pattern_limits import check_limits

HOSTILE = {
    "((((a{500}){500}){500}))": "repeats too much",
    "(ab|cd){1000000}": "repeats too much",
    "((ab|cd){1000,}){1000,2000}": "repeats too much",
    "(" * 16 + "a" + "{2})" * 16: "repeats too much",
    "(a{50000})" * 20: "repeats too much",
    "[(](a{500}[(]{500}){500}": "repeats too much",
    "[](](a{500}[[:alpha:](]{500}){500}": "repeats too much",
    r"\((a{500}\({500}){500}": "repeats too much",
    "(?#(()((a{500}){500}){500}": "repeats too much",
    "(?x)(a {500} # (\n) {500}": "repeats too much",
    "a{" + "9" * 5000 + "}": "repeats too much",
    "(" * 60 + "a" + ")" * 60: "nested more than 50 deep",
    "(?:" * 1000 + "a" + ")" * 1000: "nested more than 50 deep",
    "a|" * 6000 + "b": "12,001 characters, more than 10,000",
    "(?R)": "recursive",
    "(?:(?1)|a)(b)": "recursive",
    "(?P<x>(?&x))": "recursive",
    "(?P<x>(?P>x))": "recursive",
}


@pytest.mark.parametrize(("pattern", "problem"), HOSTILE.items(), ids=range(len(HOSTILE)))
def test_hostile_patterns_are_refused_at_once(pattern, problem):
    start = time.process_time()
    with pytest.raises(ValueError, match=problem):
        check_limits(pattern)
    assert time.process_time() - start < 0.5


@pytest.mark.parametrize(
    "pattern",
    [
        r"\p{L}{1,1000000}",
        r"\p{L}{65536}",
        "(a{100}){100}",
        r"(?V1)[[a-z]--[aeiou]]{3}",
        r"(?x) \p{L}+  # letters",
        "".join(f"(?:{letter}[({{}}]" for letter in "abcdefghij") + ")" * 10,
        # Many repetitions, none of which is within another.
        r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}"
        r"|(?:\d{1,3}\.){3}\d{1,3}|\d{3}-\d{4}|.",
        # The pattern of o200k in tiktoken 0.14, without possessive quantifiers.
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+",
    ],
)
def test_usual_patterns_are_accepted_and_compile_soon(pattern):
    check_limits(pattern)
    start = time.process_time()
    compile_pattern(pattern)
    assert time.process_time() - start < 5


def test_the_most_expensive_accepted_patterns_compile_soon():
    for pattern in ("(" * 8 + "a" + "{2})" * 8, "(ab|cd){15000}", "((ab|cd){50}){100}"):
        start = time.process_time()
        compile_pattern(pattern)
        assert time.process_time() - start < 5
