"""Encoding of bytes that need not be UTF-8, exactly: `errors="bytes"`.

The rule: text in UTF-8 is encoded as always, and each byte that is not UTF-8 becomes the token of
this byte. Which bytes are not UTF-8 is what Python's decoder says (`errors="surrogateescape"`; the
Unicode Standard, section 3.9): every byte of an incomplete or forbidden sequence. The text before
such bytes is split as if it ended there, the text after them as if it began there; merges and
special tokens never join or cross them. So decoding gives back every byte string, and a byte string
that is UTF-8 has the ids of its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from cs336_basics.tokenizer.encoders import AbsentByteError, Encoder
from cs336_basics.tokenizer.ids import TokenArray, token_dtype
from cs336_basics.tokenizer.vocabulary import ABSENT

EXACT = "bytes"
"""The value of `errors` that asks for it."""

_INVALID = re.compile("[\udc80-\udcff]+")


def text_and_bytes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield (text, invalid bytes) from left to right: joined, they are the data."""
    text = data.decode("utf-8", "surrogateescape")
    start = 0
    for match in _INVALID.finditer(text):
        invalid = match.group().encode("utf-8", "surrogateescape")
        yield text[start : match.start()].encode(), invalid
        start = match.end()
    if start < len(text):
        yield text[start:].encode(), b""


def encode_exactly(
    encoder: Encoder, data: bytes, special: frozenset[str], num_workers: int = 1
) -> TokenArray:
    """Return the ids of bytes by the rule of this module, as an array of `token_dtype`.

    Args:
        encoder: encodes the text between invalid bytes.
        data: any bytes.
        special: the special tokens that become ids.
        num_workers: threads for long texts.

    Raises:
        AbsentByteError: the vocabulary lacks a byte; `offset` is that in `data`.
    """
    byte_ids = encoder.vocabulary.byte_ids
    dtype = token_dtype(encoder.vocabulary.size)
    arrays = [np.zeros(0, dtype)]
    start = 0
    for text, invalid in text_and_bytes(data):
        if text:
            try:
                arrays.append(encoder.encode_array(text, special, num_workers))
            except AbsentByteError as error:
                error.offset += start
                raise
        start += len(text)
        ids = [byte_ids[byte] for byte in invalid]
        if ABSENT in ids:
            index = ids.index(ABSENT)
            raise AbsentByteError(invalid[index], offset=start + index)
        if ids:
            arrays.append(np.array(ids, dtype))
        start += len(invalid)
    return np.concatenate(arrays)


def absent_byte_error(error: AbsentByteError, start: int = 0) -> ValueError:
    """Return the error for a byte that the vocabulary lacks, with its offset.

    Args:
        error: what `encode_exactly` raised.
        start: offset of its data in the whole text.
    """
    return ValueError(
        f"the vocabulary has no token for the byte {error.byte:#04x} at offset "
        f"{start + error.offset:,}: add it to the vocabulary, or remove the byte"
    )
