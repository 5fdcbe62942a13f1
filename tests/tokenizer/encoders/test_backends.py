"""Choosing a backend."""

from __future__ import annotations

import sys

import pytest

from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.encoders.python_encoder import PythonEncoder
from tests.errors import rejects
from tests.tokenizer.examples import BYTES, skip_unless_available

# ------------------------------------------------------------------ backends


@pytest.mark.parametrize(
    ("pattern", "name"),
    [("gpt2", "NativeEncoder"), (r"\w+|\W", "NativeEncoder"), (r"\w+\b|\W", "NativeWordEncoder")],
)
def test_the_native_backend_is_the_default_if_available(pattern, name):
    skip_unless_available("native")
    assert type(Tokenizer(BYTES, [], pattern=pattern).encoder).__name__ == name


def test_ids_beyond_32_bits_need_the_python_backend():
    vocab = {**BYTES, 2**32 - 1: b"ab"}
    assert isinstance(Tokenizer(vocab, []).encoder, PythonEncoder)
    skip_unless_available("native")
    with rejects("backend", "'native'", 4294967295):
        Tokenizer(vocab, [], backend="native")


def test_a_vocabulary_without_some_byte_needs_a_python_backend():
    vocab = {token_id: token for token_id, token in BYTES.items() if token_id != 0x80}
    assert isinstance(Tokenizer(vocab, []).encoder, PythonEncoder)
    with rejects("backend", "0x80"):
        Tokenizer(vocab, [], backend="native")


def test_an_unknown_backend_is_rejected():
    with rejects("backend", "'cython'"):
        Tokenizer(BYTES, [], backend="cython")


def test_an_unavailable_native_backend_is_rejected(monkeypatch):
    monkeypatch.setitem(sys.modules, "cs336_basics.tokenizer.encoders.native_encoder", None)
    assert isinstance(Tokenizer(BYTES, []).encoder, PythonEncoder)
    with rejects("backend", "'native'"):
        Tokenizer(BYTES, [], backend="native")
