"""The compiled functions handle invalid UTF-8 like Python's decoder."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics.text import _utf8, utf8
from tests.splitting.test_scanner import random_text

# Text and invalid UTF-8: stray bytes, incomplete and overlong sequences, surrogates, and values
# that are too large for a code point.
PIECES = [
    b"a", b" the", "é".encode(), "中".encode(), "🎉".encode(), "\ufffd".encode(), b"\0",
    b"\xff", b"\xfe\xff", b"\x80", b"\xc3", b"\xe4\xb8", b"\xf0\x9f\x8e", b"\xc0\xaf",
    b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbf", b"x" * 70,
]  # fmt: skip

# Bytes at the limits of the ranges that may follow each other.
HOSTILE = bytes.fromhex("007f808f909fa0bf c0c1c2df e0e1edeeef f0f1f3f4f5f8ff")

hostile_bytes = st.one_of(st.binary(max_size=90), st.lists(st.sampled_from(PIECES)).map(b"".join))


def check(data):
    pairs = list(utf8.text_and_bytes_in_python(data))
    assert b"".join(text + invalid for text, invalid in pairs) == data
    for text, invalid in pairs:
        text.decode()
        assert all(byte >= 0x80 for byte in invalid)
    assert list(utf8.text_and_bytes(data)) == pairs
    assert utf8.is_valid_utf8(data) == utf8.is_valid_utf8_in_python(data)
    assert utf8.replace_invalid(data) == utf8.replace_invalid_in_python(data)
    expected = utf8.count_invalid_in_python(data)
    assert utf8.count_invalid(data) == expected
    for vectors in (True, False):
        found = _utf8.first_invalid(data, vectors)
        assert found == (expected[2] if expected[0] else None), data


@settings(max_examples=400)
@given(hostile_bytes, st.integers(0, 70))
def test_results_equal_those_of_python(data, offset):
    check(b"x" * offset + data)


def test_results_for_damaged_text_equal_those_of_python():
    rng = random.Random(3)
    for _ in range(5000):
        data = bytearray(random_text(rng).encode())
        for _ in range(rng.randint(0, 3)):
            if data:
                data[rng.randrange(len(data))] = rng.choice(HOSTILE)
        check(bytes(data[: rng.randint(0, len(data))]))


@pytest.mark.parametrize("size", [1_000, 100_000])
def test_results_for_long_data_equal_those_of_python(size):
    rng = random.Random(size)
    check(b"".join(rng.choices(PIECES, k=size)))
    check(b"".join(rng.choices(PIECES, [9] * 6 + [1] * 12, k=size)))
    check(rng.randbytes(size))


def test_each_invalid_sequence_is_counted():
    # An incomplete character is one sequence; two stray bytes are two sequences.
    data = b"a\xe4\xb8 \xff\xff\xf0\x9f\x8e"
    assert utf8.count_invalid(data) == (4, 7, 1)
    assert utf8.replace_invalid(data) == "a\ufffd \ufffd\ufffd\ufffd".encode()
    assert list(utf8.text_and_bytes(data)) == [(b"a", data[1:3]), (b" ", data[4:])]
    assert utf8.count_invalid("naïve".encode()) == (0, 0, 6)
