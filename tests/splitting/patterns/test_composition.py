"""A compiled sequence of splits finds the same pre-tokens as the splits one after another."""

from __future__ import annotations

import random
import resource
import time

import pytest

from cs336_basics.splitting import _scanner, reference
from cs336_basics.splitting.patterns import composition
from cs336_basics.splitting.patterns.named_patterns import CL100K, GPT2, O200K
from cs336_basics.splitting.patterns.pattern_syntax import UnsupportedPatternError
from cs336_basics.splitting.patterns.split_program import compile_program
from cs336_basics.splitting.patterns.split_sequences import BEHAVIORS, Split, sequence_pattern

SIMD_LEVELS = _scanner.simd_levels()

EXPRESSIONS = [
    *(r"\p{N}", r"\p{N}{1,3}", r"\p{L}+", r"[\r\n]", r"\s+", r"\s+(?!\S)|\s+", "(?:a)", "[一-龥]+"),
    *(r" ?[^\s\p{L}\p{N}]+", r"[!-/:-@]+", r"\s?[A-Za-z]+", "[^ ]+", r"\s+$", r"(?m:\s+$)", "x$"),
    *("[^a]$", r" $|\s+", r"[^\r\n]+\r?\n?", "a|ab|abc", "(?:ab)+", r"b(?=c)|\s", r"a+?b|b\Z"),
    *(r"\|>", "[一-龥\u0800-一]+", r"\n$|\s\s", GPT2, CL100K, O200K),
]
FRAGMENTS = ["a", "b", "ab", "abc", "x", "\n", "\n\n", " ", "  ", "\r\n", "1", "12", "é", "猫", "X"]
FRAGMENTS += ["\u3000", "\u1680", ".", "!", "|>", "'s", "The", "\t"]

# Where a pre-token ends after "a" in "a\t\u1680" depends on what follows. How "b." is split depends
# on whether it starts in the middle of a match of the first split.
TROUBLE = [Split("(?m:\\s+$)"), Split("[一-龥\u1680]+")]
READER = [
    Split("[一-龥]+"),
    Split(r"\|>", "Contiguous"),
    Split("[.|>]", "MergedWithNext"),
    Split(GPT2),
]


def random_splits(chooser):
    return [
        Split(chooser.choice(EXPRESSIONS), chooser.choice(BEHAVIORS), chooser.random() < 0.3)
        for _ in range(chooser.choice([1, 2, 2, 3, 4]))
    ]


def random_text(chooser):
    return "".join(chooser.choices(FRAGMENTS, k=chooser.choice([1, 3, 8, 20, 100])))


def check(pattern, program, text):
    words = list(reference.pretokenize(text, pattern))
    for level in SIMD_LEVELS:
        assert list(_scanner.PreTokens(text, program, level)) == words, (level, pattern, text)
        assert _scanner.num_pretokens(text.encode(), program, level) == len(words)


def check_safe_cuts(pattern, program, text):
    words = list(reference.pretokenize(text, pattern))
    for cut in range(1, len(text)):
        if program.is_safe_cut(text[cut - 1], text[cut]):
            halves = (reference.pretokenize(half, pattern) for half in (text[:cut], text[cut:]))
            assert [word for half in halves for word in half] == words, (pattern, text, cut)


SEEDS = [range(25), pytest.param(range(25, 5000), marks=pytest.mark.slow)]


@pytest.mark.parametrize("seeds", SEEDS)
def test_random_sequences_find_the_pieces_of_their_splits(seeds):
    kinds = set()
    for seed in seeds:
        chooser = random.Random(seed)
        pattern = sequence_pattern(random_splits(chooser))
        program = compile_program(pattern)
        kinds.add(program.reader and program.reader.starts_again)
        for index in range(5):
            text = random_text(chooser)
            check(pattern, program, text)
            if index < 2:
                check_safe_cuts(pattern, program, text)
    assert kinds == {None, True, False}


def test_other_characters_of_the_column_of_line_feeds_have_safe_cuts_of_their_own():
    splits = [Split("[^a]$", "MergedWithPrevious"), Split(GPT2, "MergedWithPrevious")]
    pattern = sequence_pattern(splits)
    program = compile_program(pattern)
    assert program.column_of("\u1680") == program.column_of("\n")
    check_safe_cuts(pattern, program, "The\n\n\u1680babX")


@pytest.mark.parametrize("splits", [TROUBLE, READER])
def test_what_the_table_cannot_find_is_found_by_the_reader(splits):
    pattern = sequence_pattern(splits)
    program = compile_program(pattern)
    assert program.reader
    assert program.reader.starts_again == (splits is TROUBLE)
    chooser = random.Random(5)
    for _ in range(100):
        text = "".join(chooser.choices(["a", "b.", ".|>", "\t", "\u1680", " ", "\n", "猫"], k=30))
        check(pattern, program, text)


@pytest.mark.parametrize("splits", [TROUBLE, READER])
@pytest.mark.parametrize("part", ["\u1680", "a\t\u1680", "\t\u1680", ".|>", "b", "|", "\n"])
def test_the_reader_takes_linear_time(splits, part):
    program = compile_program(sequence_pattern(splits))
    data = part.encode() * 30_000
    start = time.process_time()
    _scanner.num_pretokens(data, program)
    assert time.process_time() - start < 1


def test_equal_columns_are_joined_and_the_table_is_small():
    program = compile_program(sequence_pattern([Split(r"\p{N}"), Split(GPT2)]))
    assert (program.num_states, program.num_columns) <= (12, 13)
    assert program.reader is None
    assert program.matches_all_text


LARGE = {
    "counters": [Split("a{1000}"), Split("a{999}"), Split("a{7}")],
    "products": [Split(f"(?:a{{{n}}})+b", "Contiguous") for n in (7, 11, 13, 17, 19)],
    "guesses": [
        Split(rf"\p{{L}}{{1,{n}}}|\s+(?!\S)|\p{{N}}{{1,3}}", "MergedWithNext", n % 2 == 1)
        for n in range(1, 19)
    ],
    "subsets": [Split("(?:a|b)*a(?:a|b){8}"), Split("[ab]*b[ab]{7}c")],
}


@pytest.mark.parametrize("name", LARGE)
def test_a_sequence_that_takes_too_long_to_compile_is_refused_early(name):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    with pytest.raises(UnsupportedPatternError):
        compile_program(sequence_pattern(LARGE[name]))
    assert time.process_time() - start < 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KiB


def test_the_number_of_states_is_limited(monkeypatch):
    monkeypatch.setattr(composition, "MAX_STATES", 5)
    with pytest.raises(UnsupportedPatternError, match="states"):
        compile_program(sequence_pattern([Split(r"\p{N}"), Split(CL100K)]))
