"""Detecting other encodings and formats from the first bytes."""

import bz2
import gzip
import lzma

import pytest

from cs336_basics.text.encodings import (
    check_byte_order_mark,
    check_signature,
    wide_encoding,
)
from tests.errors import rejects

ENGLISH = "The cat sat on the mat, and the dog looked at it. " * 40
KOREAN = "고양이가 매트 위에 앉아 있었고 개가 그것을 바라보았다. " * 40


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize("text", ["", "a", KOREAN])
def test_byte_order_marks_are_rejected_with_the_conversion(encoding, order, text):
    data = f"\ufeff{text}".encode(f"{encoding}-{order}")
    with rejects(None, f"`iconv -f {encoding.upper()} -t UTF-8`"):
        check_byte_order_mark(data, "x")


OTHER_FORMATS = {
    "a ZIP archive": b"PK\x03\x04\x14\x00\x00",
    "a 7z archive": b"7z\xbc\xaf\x27\x1c\x00",
    "a tar archive": b"a.txt".ljust(257, b"\0") + b"ustar\x0000",
    "a bzip2 file": bz2.compress(ENGLISH.encode()),
    "an xz file": lzma.compress(ENGLISH.encode()),
    "a gzip file": gzip.compress(ENGLISH.encode()),
    "a zstd file": b"\x28\xb5\x2f\xfd\x00",
    "a NumPy array": b"\x93NUMPY\x01\x00",
    "a Parquet file": b"PAR1\x15\x04\x15\x00",
    "an Arrow file": b"ARROW1\x00\x00",
}


@pytest.mark.parametrize("kind", OTHER_FORMATS)
def test_files_of_other_formats_are_rejected_with_advice(kind):
    with rejects(None, "x", kind):
        check_signature(OTHER_FORMATS[kind], "x")


@pytest.mark.parametrize(
    "text", ["PK", "7z", "BZh", "BZh91AY&SY starts each such file", "PAR1", "a" * 257 + "ustar"]
)
def test_text_may_start_like_another_format(text):
    check_signature((text + KOREAN).encode()[:1024], "x")


def test_no_utf_8_text_starts_with_a_rejected_mark():
    for code in range(0x110000):
        if not 0xD800 <= code < 0xE000:
            check_byte_order_mark((chr(code) + "a").encode(), "x")


@pytest.mark.parametrize("encoding", ["UTF-16LE", "UTF-16BE", "UTF-32LE", "UTF-32BE"])
def test_english_without_a_byte_order_mark_is_recognized_by_its_nul_bytes(encoding):
    assert wide_encoding(ENGLISH.encode(encoding)) == encoding


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 100,
        ENGLISH.encode(),
        KOREAN.encode(),
        b"a\0b" * 99,
        b"a\0a\0" + ENGLISH.encode(),
    ],
)
def test_other_text_is_not_wide(data):
    assert wide_encoding(data) is None
