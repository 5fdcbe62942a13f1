"""Files that are not text in UTF-8: refused where that is certain, else their encoding guessed."""

from __future__ import annotations

import codecs

# The longer marks first: that of UTF-32 begins with that of UTF-16.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)

_FORMATS = (
    (0, b"PK\x03\x04", "a ZIP archive", "unpack it first"),
    (0, b"PK\x05\x06", "a ZIP archive", "unpack it first"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it first"),
    (257, b"ustar", "a tar archive", "unpack it first"),
    (4, b"1AY&SY", "a file compressed by bzip2", "decompress it first"),
    (0, b"\xfd7zXZ\x00", "a file compressed by xz", "decompress it first"),
    (0, b"\x1f\x8b\x08", "a file compressed by gzip", "unpack it, or name it FILE.gz"),
    (0, b"\x28\xb5\x2f\xfd", "a file compressed by zstd", "unpack it, or name it FILE.zst"),
    (0, b"\x93NUMPY", "a NumPy array", "name the text that it was made from"),
    (0, b"PAR1", "a Parquet file", "name it FILE.parquet"),
    (0, b"ARROW1\x00\x00", "an Arrow file", "name it FILE.arrow"),
)
"""The offset and the bytes that identify files of other formats; what they are, and what to do."""

BEGINNING = 1 << 10
"""Bytes of a file that the checks of its beginning and `wide_encoding` need."""


def check_file(data: bytes, name: str) -> None:
    """Refuse a file that begins as text in UTF-16 or UTF-32, an archive, or an array does.

    Text in UTF-8 without NUL is not refused, whatever its first words are.

    Args:
        data: the first BEGINNING bytes of the file, decompressed where its name says that it is
            compressed; fewer if it has fewer.
        name: the file, for the message.

    Raises:
        ValueError: it is not text in UTF-8.
    """
    check_beginning(data, name)
    for offset, magic, kind, advice in _FORMATS:
        if data.startswith(magic, offset) and not _may_be_text(data):
            raise ValueError(f"{name} is {kind}, not text: {advice}")


def _may_be_text(data: bytes) -> bool:
    """Return whether the beginning of a file is UTF-8 without NUL; its end may cut a character."""
    try:
        return "\0" not in codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False


def check_beginning(data: bytes, name: str) -> None:
    """Refuse a text that begins with the byte order mark of UTF-16 or UTF-32.

    These bytes are not UTF-8, so that no text in UTF-8 is refused.

    Args:
        data: the first bytes of a text, at least four if it has as many.
        name: the text, for the message.

    Raises:
        ValueError: it begins with such a mark.
    """
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            raise ValueError(
                f"{name} begins with the byte order mark of {encoding}: convert it to UTF-8, with "
                f"{_conversion(encoding)}"
            )


def wide_encoding(data: bytes) -> str | None:
    """Return the encoding of text without a byte order mark in which every other byte is NUL.

    Letters of English in UTF-16 are such bytes, and they are UTF-8, too.

    Args:
        data: some text, from an even offset; for UTF-32 from a multiple of four.
    """
    if len(data) < 16:
        return None
    quarters = [data[i::4].count(0) / len(data[i::4]) for i in range(4)]
    nul = "".join("0" if share > 0.7 else "x" for share in quarters)
    return {"x0x0": "UTF-16LE", "0x0x": "UTF-16BE", "x000": "UTF-32LE", "000x": "UTF-32BE"}.get(nul)


def guess_encoding(sample: bytes) -> str | None:
    """Return a remark on the likely encoding of text that is not UTF-8, None if there is none.

    Args:
        sample: some of the text, from an even offset or not.
    """
    wide = wide_encoding(sample) or wide_encoding(sample[1:])
    if wide is not None:
        return _remark(wide)
    controls = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in sample)
    if controls > len(sample) / 20:
        return "it does not look like text"
    # Text in UTF-8 with a few damaged bytes has other characters beyond ASCII that are whole.
    beyond_ascii = sum(byte > 127 for byte in sample)
    valid = sum(len(c.encode()) for c in sample.decode("utf-8", "ignore") if ord(c) > 127)
    if not beyond_ascii or valid > beyond_ascii / 2:
        return None
    from charset_normalizer import from_bytes  # only where it is needed

    best = from_bytes(sample).best()
    return None if best is None or best.encoding.startswith("utf") else _remark(best.encoding)


def _remark(encoding: str) -> str:
    name = encoding.upper().replace("_", "-")
    return f"it looks like {name}: if so, convert it to UTF-8, with {_conversion(name)}"


def _conversion(encoding: str) -> str:
    return f"`iconv -f {encoding} -t UTF-8`"
