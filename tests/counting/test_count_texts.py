"""Counting texts in memory."""

import warnings

import pytest

from cs336_basics._support.errors import InputTypeError
from cs336_basics.counting import count_text, count_texts
from cs336_basics.splitting import Splitter
from tests.counting.hostile import EOT, SPLITTER
from tests.errors import rejects
from tests.text.counted import DOCUMENTS, expected


def test_texts_in_memory_are_counted():
    assert count_texts(iter(DOCUMENTS), SPLITTER) == expected(DOCUMENTS)
    assert count_texts((d.encode() for d in DOCUMENTS), SPLITTER) == expected(DOCUMENTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert count_texts(DOCUMENTS, Splitter(r"\w+", [EOT])) == expected(DOCUMENTS, r"\w+")
    assert count_texts([]) == {}
    assert count_texts(["a\ud800b", "\ud83d\ude42"]) == {
        b"a": 1, "\ufffd".encode(): 1, b"b": 1, "\U0001f642".encode(): 1
    }  # fmt: skip
    assert count_texts([b"a\xff"]) == {b"a": 1, "\ufffd".encode(): 1}
    numpy = pytest.importorskip("numpy")
    assert count_texts(numpy.array([b"abc"])) == {b"abc": 1}


def test_bad_texts_are_rejected_with_their_index():
    with rejects("texts", kind=InputTypeError):
        count_texts("text")
    with rejects("texts", kind=InputTypeError, place="text 1"):
        count_texts(["a", 5])
    with rejects(None, "U+D800", 2, place="text 1"):
        count_texts(["a", "bc\ud800"], errors="strict")
    with rejects(None, "0xff", 3, place="text 2"):
        count_texts(["a", "b", b"abc\xff"], errors="strict")
    with rejects(None, "U+D800", 2):
        count_text("a \ud800")
