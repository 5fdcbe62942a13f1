"""Normalization: the quick check, and where normalized characters come from."""

from __future__ import annotations

import importlib
import random
import re
import sys
import time
import unicodedata
from pathlib import Path

import pytest

from cs336_basics.text.normalization import (
    NORMALIZERS,
    abnormal_codes,
    check_normalizer,
    doubtful_runs,
    is_normalized,
    normalized,
    normalized_with_offsets,
)
from tests.errors import rejects
from tests.processes import run_python
from tests.text.combining import combining_text

try:
    from cs336_basics.splitting._scanner import simd_levels
except ImportError:  # not built

    def simd_levels() -> list[str]:
        return []


# `cs336_basics.text` names a lazy copy of this module, whose names cannot be replaced.
normalization = importlib.import_module("cs336_basics.text.normalization")


@pytest.fixture(params=[0, 1 << 60], ids=["tables", "unicodedata"])
def way(request, monkeypatch):
    """Let the tables of native/unicode/normal_characters.hpp decide, or `unicodedata`."""
    monkeypatch.setattr(normalization, "_MAX_UNAIDED", request.param)
    doubtful_runs.cache_clear()
    yield
    doubtful_runs.cache_clear()


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


@pytest.mark.usefixtures("way")
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


CONTEXTS = [
    "a{}", "e\u0301{}", "{}\u0301", "{}\u0323\u0301", "\u1100{}", "가{}", "{}\u11a8", "か{}",
    "{}\u0338", "\u09c7{}", "\u0344{}\u0345", "x\u0300\u05b0{}", "{}{}", "中{}。",
]  # fmt: skip
"""Texts around a character. Most of them join or change places with some characters."""


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize(
    "context", ["{}", *(pytest.param(c, marks=pytest.mark.slow) for c in CONTEXTS)], ids=ascii
)
@pytest.mark.parametrize("way", [0], ids=["tables"], indirect=True)
@pytest.mark.usefixtures("way")
def test_every_character_is_normalized_in_every_context(normalizer, context):
    text = "\n".join(context.replace("{}", character) for character in EVERY_CHARACTER)
    expected = unicodedata.normalize(normalizer, text)
    assert normalized(text, normalizer) == expected
    assert normalized(text.encode(), normalizer) == expected.encode()
    # Without the line breaks, most characters have neighbors that they may be joined with.
    text = "".join(context.replace("{}", character) for character in EVERY_CHARACTER[::-1])
    assert normalized(text, normalizer) == unicodedata.normalize(normalizer, text)


def check_random_texts(seed: int, number: int) -> None:
    """Compare the normalization of random texts, also at every cut into a str of another kind."""
    chooser = random.Random(seed)
    for _ in range(number):
        text = combining_text(chooser, chooser.randrange(300))
        more = combining_text(chooser, 5)
        for form in NORMALIZERS:
            for given in (text, text + "\U00010400", more + "plain words " * 9 + text, text[::-1]):
                expected = unicodedata.normalize(form, given)
                assert normalized(given, form) == expected, ascii(given)
                assert normalized(given.encode(), form) == expected.encode(), ascii(given)
                assert is_normalized(expected, form)
                assert is_normalized(expected.encode(), form)


@pytest.mark.parametrize("number", [100, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("way")
def test_random_texts_equal_unicodedata(number):
    check_random_texts(number, number)


@pytest.mark.parametrize("simd_level", simd_levels())
def test_every_simd_level_equals_unicodedata(simd_level):
    code = (
        "from tests.text.test_normalization import *;"
        "normalization._MAX_UNAIDED = 0; check_random_texts(5, 60)"
    )
    run_python(code, cwd=Path(__file__).parents[2], CS336_SIMD=simd_level)


@pytest.mark.usefixtures("way")
def test_text_that_is_normalized_is_returned_itself():
    text = "Ünïcode “naïve” 中文。 नमस्ते שָׁלוֹם ภาษาไทย বাংলা p̄"
    for form in NORMALIZERS:
        given = unicodedata.normalize(form, text) * 9
        data = given.encode()
        assert normalized(given, form) is given
        assert normalized(data, form) is data
    assert not doubtful_runs("NFC")(unicodedata.normalize("NFC", text))


@pytest.mark.usefixtures("way")
def test_many_marks_take_linear_time_in_the_check():
    text = "a" + "\u0327" * 200_000 + "\u0301"
    start = time.process_time()
    assert len(doubtful_runs("NFC")(text)) <= 1
    assert len(doubtful_runs("NFC")(text.encode())) <= 1
    assert time.process_time() - start < 1  # 0.01 s


@pytest.mark.usefixtures("way")
def test_many_marks_that_change_places_take_linear_time():
    text = "a" + "\u0301\u0323" * 50_000
    start = time.process_time()
    found = normalized(text, "NFC")
    assert normalized(text.encode(), "NFC") == found.encode()
    assert time.process_time() - start < 4  # 0.2 s; unicodedata takes 14 s
    assert found == "ạ" + "\u0323" * 49_999 + "\u0301" * 50_000


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_long_runs_of_marks_equal_unicodedata(normalizer):
    chooser = random.Random(4)
    marks = "\u0301\u0323\u05b0\u0327\u0345\u0f73\u0344\uff9e"
    for text in ("", "é", "xé\u1100"):
        for length in (254, 255, 256, 257, 700):
            for more in ("", "a", "가\u11a8", "\u0301" * 3 + "b"):
                run = "".join(chooser.choices(marks[: 4 + length % 5], k=length))
                given = text + run + more + run[:300]
                assert normalized(given, normalizer) == unicodedata.normalize(normalizer, given)


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_without_extensions_the_check_is_the_same(normalizer, monkeypatch):
    monkeypatch.setattr(normalization, "NormalCharacters", None)
    monkeypatch.setattr(normalization, "doubtful_runs", doubtful_runs.__wrapped__)
    for text in random_texts(2, 100):
        expected = unicodedata.is_normalized(normalizer, text)
        assert is_normalized(text, normalizer) == expected
        assert is_normalized(text.encode(), normalizer) == expected


def test_the_tables_are_made_after_many_characters(monkeypatch):
    pytest.importorskip("cs336_basics.text._normalization")
    made, tables = [], normalization._tables
    monkeypatch.setattr(normalization, "_tables", lambda form: made.append(form) or tables(form))
    runs = doubtful_runs.__wrapped__("NFC")
    assert runs("é 猫\ud800") == runs("é 猫".encode()) == runs("e" * 100_000_000) == []
    assert runs("é be\u0301") == [(3, 5)]
    assert runs("é be\u0301".encode()) == [(4, 7)]
    assert made == []
    assert runs("e\u0301" * 1_000_000) == [(0, 2_000_000)]
    assert made == ["NFC"]
    runs = doubtful_runs.__wrapped__("NFD")
    for _ in range(40):
        assert runs("猫" * 500_000) == []
    assert made == ["NFC", "NFD"]
    assert doubtful_runs.__wrapped__("NFKC")("猫" * 20_000_000) == []
    assert made == ["NFC", "NFD", "NFKC"]


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_without_tables_the_runs_end_before_ascii(normalizer, monkeypatch):
    pytest.importorskip("cs336_basics.text._normalization")
    monkeypatch.setattr(normalization, "_tables", None)
    runs = doubtful_runs.__wrapped__(normalizer)
    chooser = random.Random(6)
    words = ["", "x" * 15, "x" * 16, "much longer ASCII, ", "é", "½", "e\u0301", "…", "𝔄", "가"]
    for _ in range(3000):
        text = "".join(chooser.choices(words, k=chooser.randrange(6)))
        data = text.encode()
        found = [
            match.span()
            for match in re.finditer(r"[\x00-\x7f]?[^\x00-\x7f]+", text)
            if not unicodedata.is_normalized(normalizer, match[0])
        ]
        assert runs(text) == found
        in_bytes = [(len(text[:i].encode()), len(text[:j].encode())) for i, j in found]
        assert runs(data) == in_bytes


@pytest.mark.usefixtures("way")
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
