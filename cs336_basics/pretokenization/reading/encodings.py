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

_GUESSED = (
    "cp1252", "gb18030", "big5", "cp932", "euc_jp", "cp949", "cp1251", "koi8_r", "cp866", "cp1250",
    "cp1253", "cp1254", "cp1255", "cp1256", "cp1257",
)  # fmt: skip
"""Encodings that are guessed, the most frequent first. `iconv` knows all of them."""

_FEWEST_BYTES = 8
"""Bytes beyond ASCII from which an encoding is guessed."""

_MOST_GUESSES = 3
"""Where more encodings than these are as likely, none is named."""

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
    if beyond_ascii < _FEWEST_BYTES or valid > beyond_ascii / 2:
        return None
    from charset_normalizer import from_bytes  # only where it is needed

    matches = from_bytes(sample, cp_isolation=list(_GUESSED))
    best = matches.best()
    if best is None:
        return None
    # Several may be as good: most letters of Western Europe are letters in CP1250, too.
    likely = [
        min(match.could_be_from_charset, key=_GUESSED.index)
        for match in matches
        if match.chaos <= best.chaos + 0.05 and match.coherence >= best.coherence - 0.05
    ]
    return _remark(*sorted(likely, key=_GUESSED.index)) if len(likely) <= _MOST_GUESSES else None


def _remark(*encodings: str) -> str:
    names = [encoding.upper().replace("_", "-") for encoding in encodings]
    if len(names) == 1:
        return f"it looks like {names[0]}: if so, convert it to UTF-8, with {_conversion(names[0])}"
    return (
        f"it may be {', '.join(names[:-1])} or {names[-1]}: find out which of them reads well, and "
        f"convert it to UTF-8, for example with {_conversion(names[0])}"
    )


def _conversion(encoding: str) -> str:
    return f"`iconv -f {encoding} -t UTF-8`"
