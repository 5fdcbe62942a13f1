"""Normalization: the quick check, and where normalized characters come from."""

from __future__ import annotations

import random
import sys
import unicodedata

import pytest

from cs336_basics.text import normalization
from cs336_basics.text.normalization import (
    NORMALIZERS,
    abnormal_codes,
    check_normalizer,
    is_normalized,
    normalized,
    normalized_with_offsets,
)
from tests.errors import rejects

EVERY_CHARACTER = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF]


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_every_character_of_the_quick_check_is_normalized_and_a_starter(normalizer):
    abnormal = abnormal_codes(normalizer)
    for character in EVERY_CHARACTER:
        if ord(character) not in abnormal:
            assert unicodedata.is_normalized(normalizer, character), hex(ord(character))
            assert not unicodedata.combining(character), hex(ord(character))


def random_texts(seed: int, number: int) -> list[str]:
    """Return short texts, most of whose characters interact with others."""
    chooser = random.Random(seed)
    interacting = [*map(chr, sorted(abnormal_codes("NFKC") | abnormal_codes("NFKD")))]
    common = "aeo 가각\u1100"

    def character() -> str:
        pool = chooser.choice([interacting, interacting, EVERY_CHARACTER, common])
        return chooser.choice(pool)

    return ["".join(character() for _ in range(chooser.randrange(9))) for _ in range(number)]


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_the_check_equals_unicodedata(normalizer):
    for text in random_texts(1, 1000):
        # The compiled check reads 64 characters at a time.
        for padded in (
            text, "x" * 62 + text + "中" * 70, text + "é" * 130, f"{text}{'e' * 90}{text}",
            f"{'é' * 40}{text}x{text}",
        ):  # fmt: skip
            expected = unicodedata.is_normalized(normalizer, padded)
            assert is_normalized(padded, normalizer) == expected, ascii(padded)
            assert is_normalized(padded.encode(), normalizer) == expected, ascii(padded)
            expected = unicodedata.normalize(normalizer, padded)
            assert normalized(padded, normalizer) == expected, ascii(padded)
            assert normalized(padded.encode(), normalizer) == expected.encode(), ascii(padded)


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_without_extensions_the_check_is_the_same(normalizer, monkeypatch):
    monkeypatch.setattr(normalization, "NormalCharacters", None)
    for text in random_texts(2, 100):
        expected = unicodedata.is_normalized(normalizer, text)
        assert is_normalized(text, normalizer) == expected
        assert is_normalized(text.encode(), normalizer) == expected


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_every_normalized_character_has_an_origin(normalizer):
    for text in random_texts(3, 1000):
        found, origins = normalized_with_offsets(text, normalizer)
        assert found == normalized(text, normalizer), ascii(text)
        if origins is not None:
            assert len(origins) == len(found)
            assert origins == sorted(origins)
            assert not origins or (origins[0] == 0 and origins[-1] < len(text))


def test_characters_come_from_what_they_replace():
    assert normalized_with_offsets("ae\u0301b", "NFC") == ("aéb", [0, 1, 3])
    assert normalized_with_offsets("aéb", "NFD") == ("ae\u0301b", [0, 1, 1, 2])
    assert normalized_with_offsets("ﬁ①", "NFKC") == ("fi1", [0, 0, 1])
    assert normalized_with_offsets("aéb", "NFC") == ("aéb", None)


def test_an_unknown_normalizer_is_rejected():
    with rejects("normalizer", "'nfc'", "NFC"):
        check_normalizer("nfc")
