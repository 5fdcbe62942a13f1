"""Detect files that are not UTF-8 text."""

from __future__ import annotations

import codecs

from cs336_basics._support.errors import InputError

# Longer marks come first, because the little-endian UTF-32 mark starts with the UTF-16 mark.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)

_SIGNATURES = (
    (0, b"PK\x03\x04", "a ZIP archive", "unpack it first"),
    (0, b"PK\x05\x06", "a ZIP archive", "unpack it first"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it first"),
    (257, b"ustar", "a tar archive", "unpack it first"),
    (4, b"1AY&SY", "a bzip2 file", "decompress it first"),
    (0, b"\xfd7zXZ\x00", "an xz file", "decompress it first"),
    (0, b"\x1f\x8b\x08", "a gzip file", "decompress it, or rename it to FILE.gz"),
    (0, b"\x28\xb5\x2f\xfd", "a zstd file", "decompress it, or rename it to FILE.zst"),
    (0, b"\x93NUMPY", "a NumPy array", "pass the text that it was created from"),
    (0, b"PAR1", "a Parquet file", "rename it to FILE.parquet"),
    (0, b"ARROW1\x00\x00", "an Arrow file", "rename it to FILE.arrow"),
)
"""For each format: the offset and bytes that identify it, its name, and advice for the user."""

BEGINNING = 1 << 10
"""Number of bytes that `check_signature` and `wide_encoding` need from the start of a file."""


def check_signature(data: bytes, name: str) -> None:
    """Reject UTF-16 and UTF-32 text, archives, arrays and other formats, based on the first bytes.

    Valid UTF-8 without NUL is always accepted. `data` contains the first BEGINNING bytes of the
    file, decompressed if its name ends in .gz or .zst.

    Raises:
        ValueError: If the file is not UTF-8 text.
    """
    check_byte_order_mark(data, name)
    for offset, magic, kind, advice in _SIGNATURES:
        if data.startswith(magic, offset) and not _may_be_text(data):
            raise InputError(f"{name} is {kind}, not text", remedy=advice)


def _may_be_text(data: bytes) -> bool:
    """Return whether data is UTF-8 without NUL. The last character may be incomplete."""
    try:
        return "\0" not in codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False


def check_byte_order_mark(data: bytes, name: str) -> None:
    """Reject text that starts with the byte order mark of UTF-16 or UTF-32.

    These marks are not valid UTF-8, so UTF-8 text is never rejected. The first four bytes of the
    text are sufficient.

    Raises:
        ValueError: If the text starts with one of these marks.
    """
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            raise InputError(
                f"{name} starts with the byte order mark of {encoding}",
                remedy=f"convert it to UTF-8 with `iconv -f {encoding} -t UTF-8`",
            )


def wide_encoding(data: bytes) -> str | None:
    """Recognize UTF-16 or UTF-32 without a byte order mark. Return the encoding, or None.

    The encoding is recognized by the NUL bytes in ASCII letters. The result is not certain, because
    NUL bytes are also valid UTF-8. The data must start at an even offset, or at a multiple of four
    for UTF-32.
    """
    if len(data) < 16:
        return None
    quarters = [data[i::4].count(0) / len(data[i::4]) for i in range(4)]
    nul = "".join("0" if share > 0.7 else "x" for share in quarters)
    return {"x0x0": "UTF-16LE", "0x0x": "UTF-16BE", "x000": "UTF-32LE", "000x": "UTF-32BE"}.get(nul)
