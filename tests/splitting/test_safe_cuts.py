"""Splitting both sides of a safe cut gives the same result as splitting the whole text."""

import itertools
import random
import string
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs336_basics.splitting import PATTERNS
from cs336_basics.splitting.patterns.split_program import find_program
from cs336_basics.splitting.safe_cuts import NamedCuts, SpaceCuts
from cs336_basics.splitting.splitter import Splitter
from cs336_basics.text.cuts import safe_blocks
from cs336_basics.text.normalization import NORMALIZERS
from tests.splitting.trouble import SPECIAL, TROUBLE, data_strategy, special_strategy, split
from tests.text.combining import COMBINING


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"\w+|\W+"])
@given(data=data_strategy, special_tokens=special_strategy, block_size=st.integers(1, 30))
def test_blocks_split_like_the_whole(pattern, data, special_tokens, block_size):
    splitter = Splitter(pattern, special_tokens)
    blocks = [data[start : start + block_size] for start in range(0, len(data), block_size)]
    found = list(safe_blocks(blocks, splitter.safe_cuts))
    assert b"".join(found) == data
    assert list(itertools.chain(*(split(block, splitter) for block in found))) == split(
        data, splitter
    )


@pytest.mark.parametrize("space", " \t\n\v\f\r")
def test_a_space_cut_may_follow_every_printable_character(space):
    cuts = SpaceCuts(r"\S+|\s+", lambda before, after: True)
    for code in range(0x21, 0x7F):
        data = (chr(code) + space).encode()
        assert cuts.first(data, 0, 2) == cuts.last(data, 0) == 1
    for before in (" ", "\x00", "\x7f", "é"):
        data = (before + space).encode()
        assert cuts.first(data, 0, len(data)) is cuts.last(data, 0) is None


def test_no_cut_is_inside_a_special_token_that_overlaps_itself():
    splitter = Splitter(r"\b\S+|\s+", ["bab"])  # cuts only after special tokens
    data = b"a word abababa word"
    whole = split(data, splitter)
    for start in range(len(data)):
        cut = splitter.safe_cuts.first(data, start, len(data))
        if cut is not None:
            assert split(data[:cut], splitter) + split(data[cut:], splitter) == whole


@pytest.mark.parametrize("number", [50, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"\w+|\W+"])
def test_blocks_of_normalized_text_split_like_the_whole(pattern, normalizer, number):
    chooser = random.Random(pattern + normalizer)
    pool = TROUBLE + [character.encode() for character in COMBINING]
    for _ in range(number):
        splitter = Splitter(pattern, chooser.sample(SPECIAL, chooser.randrange(3)), normalizer)
        blocks = [b"".join(chooser.choices(pool, k=3)) for _ in range(chooser.randrange(12))]
        found = list(safe_blocks(blocks, splitter.safe_cuts))
        data = b"".join(blocks)
        assert b"".join(found) == data
        words = [splitter.split(block.decode("utf-8", "replace")) for block in found]
        whole = list(splitter.split(data.decode("utf-8", "replace")))
        assert list(itertools.chain(*words)) == whole, data


@pytest.mark.parametrize("text", ["one two " * 9, "一行。\n" * 9, "語、 " * 9, "한국어.\n" * 9])
def test_normalized_text_is_cut_between_words(text):
    splitter, data = Splitter(normalizer="NFC"), text.encode()
    blocks = safe_blocks([data[i : i + 1] for i in range(len(data))], splitter.safe_cuts)
    assert len(list(blocks)) > 4


def test_no_ascii_character_before_a_cut_is_joined_with_the_next_character():
    """The characters that are joined with another one are letters and `<=>`."""
    first = set()
    for code in range(0x110000):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and parts[0][0] != "<":
            first.add(chr(int(parts[0], 16)))
            assert not chr(int(parts[1], 16)).isascii()
    assert {c for c in first if c.isascii()} <= set(string.ascii_letters + "<=>")


@pytest.mark.skipif(NamedCuts is None, reason="the extensions are not built")
def test_a_pattern_that_is_newer_than_the_compiled_code_is_an_error():
    with pytest.raises(ValueError, match="build the extensions"):
        NamedCuts("newer")


@pytest.mark.skipif(NamedCuts is None, reason="the extensions are not built")
@pytest.mark.parametrize("name", PATTERNS)
def test_compiled_cuts_of_named_patterns_are_those_of_the_program(name):
    compiled, program = NamedCuts(name), find_program(name)
    for after in range(128):
        assert compiled.ascii_before(after) == program.ascii_before(after)
    others = ["\x80", "é", "Ⅷ", "猫", "\u3000", "\u2028", "\u0301", "٣", "’", "🎉", "\ue000", "Ж"]
    for before in [*map(chr, range(0, 128, 7)), *others]:
        for after in map(chr, range(128)):
            assert compiled.is_safe_cut(before, after) == program.is_safe_cut(before, after)


@pytest.mark.parametrize("name", PATTERNS)
def test_named_patterns_match_all_text(name):
    # so `_matching_all_text` need not compile them
    assert find_program(name).matches_all_text
