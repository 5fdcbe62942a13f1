"""Measures of tokenizers, compared with their definitions."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from cs336_basics import Tokenizer
from cs336_basics.formats.compared_tokenizers import Coder, ComparedTokenizer, open_tokenizer
from cs336_basics.reports.measures import (
    WordTotals,
    count_words,
    different_lines,
    gini,
    interval,
    is_part_of_utf8,
    renyi_efficiency,
    unreachable_tokens,
    word_totals,
)
from tests.tokenizer.examples import BYTES, END, small_tokenizer


def opened(tokenizer, path):
    tokenizer.save(path)
    return open_tokenizer(path)


def test_an_interval_covers_the_ratio_about_95_times_in_100():
    generator = np.random.default_rng(1)
    covered = 0
    for _ in range(60):
        tokens = generator.integers(50, 500, size=40)
        sizes = np.rint(tokens * generator.normal(4, 0.5, size=40)).astype(int)
        low, high = interval(sizes.tolist(), tokens.tolist())
        assert low < sizes.sum() / tokens.sum() < high
        covered += low <= 4 <= high
    assert 50 <= covered <= 60


def test_an_interval_needs_two_documents_and_is_narrow_for_equal_ones():
    assert interval([], []) is None
    assert interval([4], [1]) is None
    assert interval([8, 4, 16], [2, 1, 4]) == (4, 4)
    assert interval([8, 4, 16], [2, 1, 4]) == interval([8, 4, 16], [2, 1, 4])
    low, high = interval([0, 4], [0, 1])  # a document without tokens
    assert low == high == 4


def test_renyi_efficiency_is_that_of_the_definition():
    assert renyi_efficiency([5] * 16, 16) == pytest.approx(1)
    assert renyi_efficiency([5] * 4, 16) == pytest.approx(0.5)
    assert renyi_efficiency([7], 16) == pytest.approx(0)
    shares = np.array([0.5, 0.25, 0.25])
    entropy = math.log(sum(share**3 for share in shares)) / (1 - 3)
    assert renyi_efficiency([2, 1, 1, 0], 8, alpha=3) == pytest.approx(entropy / math.log(8))
    assert math.isnan(renyi_efficiency([], 16))
    assert math.isnan(renyi_efficiency([1], 1))


def test_the_gini_coefficient_is_that_of_the_definition():
    assert gini([3, 3, 3]) == 0
    assert gini([1, 3]) == pytest.approx(0.25)
    assert gini([1e-12] * 99 + [1]) == pytest.approx(0.99)
    assert math.isnan(gini([1]))


def test_words_are_runs_of_one_script_with_the_blank_before():
    text = "The cat's naïve, 12 Ёлка! 猫はカタカナ ქართული नमस्ते ⅷ ⴰⴱ é\u0301"
    assert count_words([text, "The"]) == {
        ("Latin", "The"): 2, ("Latin", " cat"): 1, ("Latin", "s"): 1, ("Latin", " naïve"): 1,
        ("Cyrillic", " Ёлка"): 1, ("Han", " 猫"): 1, ("Hiragana", "は"): 1,
        ("Katakana", "カタカナ"): 1, ("Georgian", " ქართული"): 1, ("Devanagari", " नमस्ते"): 1,
        ("Other", " ⴰⴱ"): 1, ("Latin", " é\u0301"): 1,
    }  # fmt: skip


def test_a_word_may_have_millions_of_letters():
    (word,) = count_words(["e\u0301" * 3_000_000])  # `(?:[e]M*)+` runs out of memory
    assert len(word[1]) == 6_000_000


def test_totals_are_those_of_each_word_encoded_alone(tmp_path):
    tokenizer = small_tokenizer()
    text = "the cat and the 猫は theatre"
    totals = word_totals(opened(tokenizer, tmp_path), count_words([text]))
    lengths = [len(tokenizer.encode(word)) for word in ("the", " cat", " and", " the", " theatre")]
    assert totals["Latin"] == WordTotals(5, 19, sum(lengths), lengths.count(1))
    assert totals["Latin"].fertility == sum(lengths) / 5
    assert totals["Latin"].share_whole == lengths.count(1) / 5
    assert totals["Latin"].bytes_per_token == 19 / sum(lengths)
    assert set(totals) == {"Latin", "Han", "Hiragana"}


def test_a_blank_that_is_its_own_token_does_not_count():
    tokens = {0: b" ", 1: b"cat", 2: "▁".encode()}
    for blank in (0, 2):
        ids = [blank, 1]
        coder = Coder(lambda text, ids=ids: ids, str)
        tokenizer = ComparedTokenizer("a", "none", tokens, frozenset(), lambda coder=coder: coder)
        assert word_totals(tokenizer, {("Latin", " cat"): 2})["Latin"] == WordTotals(2, 6, 2, 2)


def test_unreachable_tokens_and_parts_of_characters_are_found(tmp_path):
    vocab = {**BYTES, 256: b"ab", 257: b"abc", 258: b" ", 259: b"a b", 260: "猫".encode()[:2],
             261: b"\xc0\x80", 262: b"bc", 263: b"\x80\x80\x80\x80", 264: b"\xa9a"}  # fmt: skip
    del vocab[32]
    merges = [
        (b"a", b"b"), (b"ab", b"c"), (b"b", b"c"), ("猫".encode()[:1], "猫".encode()[1:2]),
        (b"\xa9", b"a"),
    ]  # fmt: skip
    tokenizer = Tokenizer(vocab, merges, [END])
    unreachable, partial = unreachable_tokens(opened(tokenizer, tmp_path))
    never = [*map(bytes, zip([0xC0, 0xC1, *range(0xF5, 0x100)], strict=True))]
    assert unreachable == [*never, b"a b", b"\xc0\x80", b"\x80\x80\x80\x80"]
    assert partial == ["猫".encode()[:2], b"\xa9a"]


def test_a_token_that_only_occurs_between_others_is_reachable(tmp_path):
    # With the first pattern, two blanks are one pre-token, but only if an "a" follows.
    vocab = {**BYTES, 256: b"  "}
    tokenizer = Tokenizer(vocab, [(b" ", b" ")], pattern=r"  (?=a)|.")
    assert unreachable_tokens(opened(tokenizer, tmp_path))[0][-1] == b"\xff"
    tokenizer = Tokenizer(vocab, [(b" ", b" ")], pattern=r".")
    assert unreachable_tokens(opened(tokenizer, tmp_path))[0][-1] == b"  "


def test_parts_of_utf8_are_exactly_its_substrings():
    random.seed(0)
    text = "aéЖ猫🎉\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"
    data = "".join(random.choices(text, k=300)).encode()
    for _ in range(500):
        start = random.randrange(len(data))
        assert is_part_of_utf8(data[start : start + random.randrange(8)])
    for bad in (b"\xc0", b"\xff", b"a\x80", b"\x80" * 4, b"\xed\xa0", b"\xf4\x90", b"\xe0\x80"):
        assert not is_part_of_utf8(bad)


def test_lines_are_those_that_are_cut_most_differently(tmp_path):
    ours = opened(small_tokenizer(), tmp_path / "a")
    tokenizers = [ours, opened(Tokenizer(BYTES, []), tmp_path / "b")]
    same = "Q Q Q Q Q Q Q Q Q Q Q Q Q"
    documents = ["too short", f"{same}\nthe theatre then gathers others", "the cat " * 50]
    lines = different_lines(tokenizers, documents)
    assert [line for line, _ in lines] == [
        ("the cat " * 50)[:120],
        "the theatre then gathers others",
    ]
    for line, (few, many) in lines:
        assert b"".join(few.tokens) == b"".join(many.tokens) == line.encode()
        assert few.marked == frozenset()
        assert len(many.marked) == len(many.tokens) - len(few.tokens)
    assert different_lines([ours, ours], documents) == []
    assert different_lines(tokenizers, documents, 1) == lines[:1]
