"""WordCounts: a mapping that is stored in arrays and can be added, scaled, saved and loaded."""

import pickle
import sys
import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs336_basics._support.errors import InputError, InputTypeError, UnavailableError
from cs336_basics._support.lazy import LazyModule
from cs336_basics.bpe import TRAINERS
from cs336_basics.counting import WordCounts, count_texts, count_words, word_counts
from cs336_basics.splitting import Splitter, splitter
from cs336_basics.splitting.patterns.named_patterns import PATTERNS
from tests.errors import rejects
from tests.reports.test_page import Page

SOME = {b"the": 3, b" cat": 2, b"x" * 40: 1, b"\xe5\xad\x97": 2**40}


def test_word_counts_are_a_mapping():
    counts = WordCounts.from_mapping({**SOME, b"never": 0}, "gpt2")
    assert counts == SOME
    assert SOME == counts  # noqa: SIM300
    assert counts == Counter(SOME)
    assert counts != {**SOME, b"the": 4}
    assert dict(counts) == dict(counts.items()) == SOME
    assert list(counts) == counts.words() == list(SOME)
    assert list(counts.values()) == list(SOME.values())
    assert len(counts) == 4
    assert counts.total == sum(SOME.values())
    assert counts[b"the"] == 3
    assert counts[b"dog"] == 0
    assert pickle.loads(pickle.dumps(counts)) == SOME
    assert repr(counts) == f"<WordCounts: 4 distinct words, {counts.total:,} in all>"
    with pytest.raises(ValueError, match="read-only"):
        counts.counts[0] = 7


def test_a_notebook_shows_the_most_frequent_words():
    counts = {b"w%d" % index: 1 + index for index in range(21)}
    page = Page(WordCounts.from_mapping({**counts, b"<b>\n\xff": 769})._repr_html_())
    assert page.table[:3] == [
        ["word", "count", "share"], ["<b>↵<ff>", "769", "76.90%"], ["w20", "21", "2.10%"]
    ]  # fmt: skip
    assert len(page.table) == 1 + 20
    assert page.text[0] == "22 distinct words, 1,000 in all; the 20 most frequent"
    long = Page(WordCounts.from_mapping({b"x" * 101: 2**62})._repr_html_())
    assert long.table[1] == ["x" * 100 + "…", f"{2**62:,}", "100.00%"]
    assert long.text[0] == f"1 distinct word, {2**62:,} in all"
    assert Page(WordCounts.from_mapping({})._repr_html_()).table == [["word", "count", "share"]]


@given(
    st.lists(st.dictionaries(st.binary(max_size=40), st.integers(0, 2**60), max_size=8), max_size=5)
)
def test_word_counts_are_added(parts):
    total = Counter()
    for part in parts:
        total.update(part)
    total = {word: count for word, count in total.items() if count}
    assert WordCounts.combined([WordCounts.from_mapping(part) for part in parts]) == total


@pytest.mark.parametrize(
    ("first", "second", "value"),
    [
        ({"pattern": "gpt2"}, {"pattern": "cl100k"}, "cl100k"),
        ({"special_tokens": ["<a>"]}, {"special_tokens": []}, "<a>"),
    ],
)
def test_counts_with_other_patterns_or_special_tokens_are_not_added(first, second, value):
    made = [WordCounts.from_mapping({b"low": 1}, **how) for how in (first, {}, second)]
    with rejects(None, value):
        WordCounts.combined(made)
    total = WordCounts.combined(made[:2])
    assert (total.pattern, total.special_tokens) == (made[0].pattern, made[0].special_tokens)


def test_word_counts_are_added_without_the_extension(monkeypatch):
    monkeypatch.setitem(sys.modules, "cs336_basics.counting._counting", None)
    some = WordCounts.from_mapping(SOME)
    assert some + some == {word: 2 * count for word, count in SOME.items()}
    with rejects("splitting", "build_ext --inplace", kind=UnavailableError):
        count_words(__file__, splitting="compiled")


def test_adding_other_types_or_too_large_counts_raises():
    most = WordCounts.from_mapping({b"a": 2**63 - 1})
    with rejects(None, "2^63 - 1"):
        most + WordCounts.from_mapping({b"a": 1})
    with pytest.raises(TypeError):
        most + {b"a": 1}
    expression = splitter.resolve_pattern("gpt2")
    named = WordCounts.from_mapping(SOME, "gpt2") + WordCounts.from_mapping(SOME, expression)
    assert named.pattern == "gpt2"


def test_word_counts_are_scaled():
    counts = WordCounts.from_mapping(SOME, "gpt2")
    assert counts.scaled(3) == {word: 3 * count for word, count in SOME.items()}
    halves = counts.scaled(0.4)
    assert halves == {b"the": 1, b" cat": 1, b"\xe5\xad\x97": round(0.4 * 2**40)}
    assert halves.pattern == "gpt2"
    assert counts.scaled(0) == {}
    for weight in (-1, float("nan"), float("inf")):
        with rejects("weight"):
            counts.scaled(weight)
    for weight in ("2", None, True):
        with rejects("weight", repr(weight), kind=InputTypeError):
            counts.scaled(weight)
    with rejects("weight", 2**30):
        counts.scaled(2**30)


def test_inconsistent_arrays_raise():
    data, offsets, counts = np.zeros(3, np.uint8), np.array([0, 1, 3]), np.array([5, 6])
    WordCounts(data, offsets.astype(np.int32), counts.astype(np.uint8))
    for bad in (
        (data, offsets[:2], counts),
        (data[:2], offsets, counts),
        (data, np.array([0, 4, 3]), counts),
        (data, offsets, np.array([5, 0])),
        (data, offsets.reshape(3, 1), counts),
    ):
        with pytest.raises(InputError):
            WordCounts(*bad)
    # These conversions could change numbers.
    for argument, bad in (
        ("data", (data.astype(int), offsets, counts)),
        ("offsets", (data, offsets.astype(np.uint64), counts)),
        ("counts", (data, offsets, np.array([5.5, 6.0]))),
    ):
        with rejects(argument, kind=InputTypeError):
            WordCounts(*bad)
    with rejects("special_tokens", kind=InputTypeError):
        WordCounts(data, offsets, counts, "gpt2", "<a>")


def test_total_is_exact():
    most = 2**63 - 1
    counts = WordCounts.from_mapping({b"a": most, b"b": most, b"c": 5})
    assert counts.total == 2 * most + 5
    assert WordCounts.from_mapping({}).total == 0


def test_num_bytes_is_exact():
    assert WordCounts.from_mapping({}).num_bytes == 0
    assert WordCounts.from_mapping({b"abc": 5, b"": 7, b"d": 1}).num_bytes == 16
    for count in (2**60 + 1, 2**61 - 1, 2**62 - 1, 2**62 + 1, 2**63 - 1):
        assert WordCounts.from_mapping({b"ab": count, b"c": 1}).num_bytes == 2 * count + 1


@pytest.mark.parametrize("word", [b"a", b"a much longer word than that", b""])
@pytest.mark.parametrize("compiled", [True, False])
def test_a_repeated_word_is_rejected(tmp_path, monkeypatch, word, compiled):
    if not compiled:
        monkeypatch.setitem(sys.modules, "cs336_basics.counting._counting", None)
    words = [b"x", word, b"another long word that is different", word]
    data = np.frombuffer(b"".join(words), np.uint8)
    arrays = data, np.cumsum([0, *map(len, words)]), np.array([1, 2, 3, 4])
    with rejects(None, f"word {word!r}", "index 3"):
        WordCounts(*arrays)
    WordCounts.of_buffers(arrays).save(tmp_path / "counts.npz")
    with rejects(None, f"word {word!r}", "index 3", place="counts.npz"):
        WordCounts.load(tmp_path / "counts.npz")


def test_words_may_be_str():
    counts = Counter(["low", "lower", "low", "né", "猫"])
    as_bytes = {word.encode(): count for word, count in counts.items()}
    assert WordCounts.from_mapping(counts) == as_bytes
    trainer = TRAINERS["heap"]()
    assert trainer.train_from_counts(counts, 262) == trainer.train_from_counts(as_bytes, 262)
    for repeated in ({"low": 1, b"low": 2}, {b"low": 1, "low": 2}):
        with rejects(None, "b'low'"):
            WordCounts.from_mapping(repeated)
    with rejects(None, "U+D800"):
        WordCounts.from_mapping({"a\ud800": 1})


def train(counts, special_tokens=(), **options):
    TRAINERS["heap"](**options).train_from_counts(counts, 257 + len(special_tokens), special_tokens)


@pytest.mark.parametrize("with_numpy", [True, False])
def test_words_that_are_not_pre_tokens_are_a_warning(monkeypatch, with_numpy):
    if not with_numpy:
        monkeypatch.setattr(word_counts, "np", LazyModule("no_such_module"))
    many = Counter({f"word{chr(97 + i // 26)}{chr(97 + i % 26)}": 2 for i in range(600)})
    text = "The end. They don't say it, and we didn't hear it. " * 3
    words = Counter((text + " ".join(many.elements())).split())
    with pytest.warns(UserWarning, match="'gpt2'") as found:
        train(words)
    message = str(found[0].message)
    assert all(word in message for word in ("end.", "don't", "it,", "count_texts"))
    assert "%" in message
    assert "didn't" not in message, "three examples are enough"
    with pytest.warns(UserWarning, match="<end>"):
        train({"<end>": 5, "low": 3}, ["<end>"], pattern=r"[^ ]+|\s+")


def test_words_that_are_pre_tokens_are_no_warning():
    text = "The end. They don't say  it,\n\n and we didn't hear it. 1234 né 猫!? " * 9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for pattern in PATTERNS:
            train(Counter(Splitter(pattern).split(text)), pattern=pattern)
        train(Counter(text.split()), pattern=r"\S+|\s+")
        train({b"low \xff": 5, b"": 3, b"low": 5})  # not text, so it cannot be split
        # The library's own counts are not checked: alone, "ab" is not a pre-token of this pattern.
        counts = count_texts(["ab ab"], Splitter("ab(?= )|a|b| "))
        assert b"ab" in counts
        train(counts, pattern=counts.pattern)


def test_counts_of_differently_normalized_texts_are_not_mixed(tmp_path):
    plain = count_texts(["e\u0301"])
    nfc, nfd = (count_texts(["e\u0301"], Splitter(normalizer=form)) for form in ("NFC", "NFD"))
    assert (plain, nfc) == ({b"e": 1, "\u0301".encode(): 1}, {"é".encode(): 1})
    assert (nfc + nfc).normalizer == nfc.scaled(2).normalizer == "NFC"
    assert pickle.loads(pickle.dumps(nfc)).normalizer == "NFC"
    nfc.save(tmp_path / "nfc.npz")
    plain.save(tmp_path / "plain.npz")
    assert WordCounts.load(tmp_path / "nfc.npz").normalizer == "NFC"
    assert WordCounts.load(tmp_path / "plain.npz").normalizer is None
    unknown = WordCounts.from_mapping({b"e": 1})
    assert (unknown + nfc).normalizer == "NFC"
    for other in (plain, nfd):
        with rejects(None, "'NFC'", repr(other.normalizer)):
            nfc + other
    with rejects("normalizer", "'NFC'", "None"):
        TRAINERS["native"]().train_from_counts(nfc, 257)
    with rejects("normalizer", "None", "'NFC'"):
        TRAINERS["native"](normalizer="NFC").train_from_counts(plain, 257)
    with rejects("normalizer", "'nfc'"):
        WordCounts(plain.data, plain.offsets, plain.counts, "gpt2", [], "nfc")
    with pytest.warns(UserWarning, match="'NFC'.*'e\u0301'"):
        TRAINERS["native"](normalizer="NFC").train_from_counts({"e\u0301": 1}, 257)


def test_counts_without_compiled_code_keep_the_normalizer(monkeypatch):
    monkeypatch.setitem(sys.modules, "cs336_basics.counting._counting", None)
    nfc = count_texts(["e\u0301"], Splitter(normalizer="NFC"))
    assert (nfc + nfc) == {"é".encode(): 2}
    assert (nfc + nfc).normalizer == "NFC"
