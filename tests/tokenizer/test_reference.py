"""The reference's two algorithms, and the characters that other libraries class differently."""

from __future__ import annotations

import functools
import unicodedata

import pytest
import regex

from cs336_basics.tokenizer.reference import (
    encode_text,
    merge_pretoken,
    merge_pretoken_in_order,
)
from tests.tokenizer.examples import BYTES, TRAINING_TEXT, trained


def test_merges_in_order_give_the_same_tokens_in_a_trained_vocabulary():
    vocab, merges = trained()
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    for word in {*TRAINING_TEXT.split(" "), "aaaaaaaa", "hahahaha", " \n\r\t.", ""}:
        expected = merge_pretoken(word.encode(), ranks)
        assert merge_pretoken_in_order(word.encode(), merges) == expected
        assert set(expected) <= set(vocab.values())
    # In an edited vocabulary, (ab, c) may precede (a, b), the merge that produces its left token.
    edited = [(b"ab", b"c"), (b"a", b"b")]
    assert merge_pretoken_in_order(b"abc", edited) == [b"ab", b"c"]
    assert merge_pretoken(b"abc", {pair: rank for rank, pair in enumerate(edited)}) == [b"abc"]


def test_a_token_that_no_merge_produces_is_used_only_if_merges_are_ignored():
    vocab = {**BYTES, 256: b"abc"}
    assert encode_text("abc", vocab, []) == [97, 98, 99]
    assert encode_text("abc", vocab, [], ignore_merges=True) == [256]


tiktoken = pytest.importorskip("tiktoken")

tokenizers = pytest.importorskip("tokenizers")

ALL_CHARACTERS = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)


def matched_by_tiktoken(pattern: str) -> set[str]:
    # If the tokens are single bytes, the ids are the UTF-8 bytes of all matches. Other text is
    # dropped.
    ranks = {bytes([byte]): byte for byte in range(256)}
    encoding = tiktoken.Encoding("", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return set(bytes(encoding.encode_ordinary(ALL_CHARACTERS)).decode())


def matched_by_tokenizers(pattern: str) -> set[str]:
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "removed", invert=True)
    found: set[str] = set()
    for start in range(0, len(ALL_CHARACTERS), 4096):  # the time grows faster than the length
        words = split.pre_tokenize_str(ALL_CHARACTERS[start : start + 4096])
        found.update(*(word for word, _ in words))
    return found


@functools.cache
def classed_differently() -> frozenset[str]:
    different: set[str] = set()
    for pattern in (r"\p{L}+", r"\p{M}+", r"\p{N}+", r"\p{P}+", r"\p{S}+", r"\s+"):
        ours = set("".join(regex.findall(pattern, ALL_CHARACTERS)))
        different |= ours ^ matched_by_tiktoken(pattern)
        different |= ours ^ matched_by_tokenizers(pattern)
    return frozenset(different)


def without_differences(text: str) -> str:
    return "".join(character for character in text if character not in classed_differently())


@functools.cache
def characters_without_differences() -> str:
    return without_differences(ALL_CHARACTERS)


def test_only_characters_of_late_unicode_versions_are_classed_differently():
    categories = {unicodedata.category(character) for character in classed_differently()}
    if unicodedata.unidata_version.startswith("14."):
        assert categories <= {"Cn"}
    assert all(unicodedata.ucd_3_2_0.category(c) == "Cn" for c in classed_differently())
    assert len(classed_differently()) < 30_000
