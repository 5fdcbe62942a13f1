"""Hostile regular expressions are rejected quickly, and ordinary ones are accepted."""

import contextlib
import os
import random
import sys
import time

import pytest

from cs336_basics._support.errors import InputError
from cs336_basics.splitting.patterns.named_patterns import compile_pattern, resolve_pattern
from cs336_basics.splitting.patterns.pattern_limits import check_limits
from cs336_basics.splitting.patterns.split_program import compile_program

HOSTILE = [
    "((((a{500}){500}){500}))",
    "(ab|cd){1000000}",
    "((ab|cd){1000,}){1000,2000}",
    "(" * 16 + "a" + "{2})" * 16,
    "(a{50000})" * 20,
    "[(](a{500}[(]{500}){500}",
    "[](](a{500}[[:alpha:](]{500}){500}",
    r"\((a{500}\({500}){500}",
    "(?#(()((a{500}){500}){500}",
    "(?x)(a {500} # (\n) {500}",
    "a{" + "9" * 5000 + "}",
    "(?x)(a{50000}){5}",
    "(" * 20 + "a" + ")+" * 20,
    "(?x)" + "(" * 20 + "a" + ") +" * 20,
    "(?V1)" + "(?>" * 20 + "[a]" + "){1,2}+" * 20,
    "(?:" * 20 + "a" + "){1,}?" * 20,
    "(" * 60 + "a" + ")" * 60,
    "(?:" * 1000 + "a" + ")" * 1000,
    "a|" * 6000 + "b",
    "(?R)",
    "(?:(?1)|a)(b)",
    "(?P<x>(?&x))",
    "(?P<x>(?P>x))",
]


@pytest.mark.parametrize("pattern", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_patterns_are_rejected_quickly(pattern):
    start = time.process_time()
    with pytest.raises(InputError):
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
        "(" * 40 + "a" + ")?" * 20 + "){1}" * 20 + "b",
        "".join(f"(?:{letter}[({{}}]" for letter in "abcdefghij") + ")" * 10,
        # The most expensive patterns that are accepted.
        "(" * 8 + "a" + "{2})" * 8,
        "(ab|cd){15000}",
        "((ab|cd){50}){100}",
        # Many repetitions that are not nested.
        r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}"
        r"|(?:\d{1,3}\.){3}\d{1,3}|\d{3}-\d{4}|.",
        # The o200k pattern of tiktoken 0.14, without possessive quantifiers.
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+",
    ],
)
def test_accepted_patterns_compile_within_seconds(pattern):
    check_limits(pattern)
    start = time.process_time()
    compile_pattern(pattern)
    assert time.process_time() - start < 5


ATOMS = ["a", r"\p{L}", r"\s", "[^a]", ".", "ſ", "(?=a)", r"(?<=a)", "$", r"\b", r"\X", "#", " "]
ATOMS += ["(?i:sk)", r"\N{DIGIT ONE}", "(?#c()", "[[:alpha:]]", "[[a-z]--[aeiou]]", "\n"]
QUANTIFIERS = ["+", "*", "?", "{1,}", "{1,2}", "+?", "++", "{2}", "{3,}", "{0,5}", "{1}", "{1000}"]
QUANTIFIERS += ["{,1000}+", "{2,3}+", "{e<=1}", " +", "(?#x)+"]
GROUPS = ["(", "(?:", "(?i:", "(?>", "(?=", "(?!", "(?<=", "(?|", "(?x:", "(?V1:", "(?r:"]


def random_pattern(rng, length=200):
    """Return a random pattern of at most `length` characters, deeply nested half of the time."""
    flags = rng.choice(["", "", "(?x)", "(?i)", "(?V1)"])
    if rng.random() < 0.5:
        group, quantifier = rng.choice(GROUPS), rng.choice(QUANTIFIERS)
        around = len(group) + len(quantifier) + 1
        depth = rng.randint(1, max(1, min(60, (length - 20) // around)))
        return flags + group * depth + rng.choice(ATOMS) + f"){quantifier}" * depth
    pattern, ends = flags, []
    while len(pattern) + sum(map(len, ends)) < length - 20:
        kind = rng.random()
        if kind < 0.4:
            pattern += rng.choice(GROUPS)
            ends.append(")" + rng.choice(QUANTIFIERS))
        elif kind < 0.5 and ends:
            pattern += ends.pop()
        else:
            pattern += rng.choice(ATOMS) + rng.choice(["", "|", rng.choice(QUANTIFIERS)])
    return pattern + "".join(reversed(ends))


def compile_in_child(pattern):
    """Compile a pattern in a new process. Return the seconds of CPU time and peak of memory."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(ValueError):
            compile_program(resolve_pattern(pattern))
        os._exit(0)
    _, status, usage = os.wait4(pid, 0)
    assert status == 0, pattern
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has a different unit elsewhere")
@pytest.mark.parametrize("count", [20, pytest.param(20_000, marks=pytest.mark.slow)])
def test_no_pattern_takes_more_than_200_mb(count):
    rng = random.Random(count)
    _, before = compile_in_child("a|b")
    for _ in range(count):
        pattern = random_pattern(rng)
        seconds, size = compile_in_child(pattern)
        assert size < before + 200e6, (pattern, size)
        assert seconds < 10, (pattern, seconds)  # usually about 1 second
