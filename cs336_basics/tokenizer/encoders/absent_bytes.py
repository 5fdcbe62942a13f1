"""Vocabularies without some byte. Only the Python encoders support them; see `backends.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics.text.utf8 import text_and_bytes

if TYPE_CHECKING:
    from cs336_basics.tokenizer.encoders.encoder import Encoder


class AbsentByteError(InputError):
    """Raised if a word contains a byte that has no token in the vocabulary."""


def absent_in_word(word: bytes, offset: int) -> AbsentByteError:
    """Return the error for a word whose byte at `offset` is not in the vocabulary."""
    return AbsentByteError(
        f"word {short_repr(word.decode(errors='backslashreplace'))} needs the byte "
        f"{word[offset]:#04x}, which is not in the vocabulary",
        remedy="add the byte to the vocabulary, or leave out the word",
    )


def check_word(word: bytes, token_ids: Mapping[bytes, int]) -> None:
    """Raise AbsentByteError if a byte of a word has no token."""
    for offset, byte in enumerate(word):
        if bytes([byte]) not in token_ids:
            raise absent_in_word(word, offset)


def absent_bytes_in(
    encoder: Encoder, data: bytes, special: frozenset[str]
) -> Iterator[tuple[int, int]]:
    """Yield the value and the offset of each byte of a text that cannot be encoded.

    Args:
        encoder: Encoder that raised AbsentByteError.
        data: Text that was being encoded. It may be invalid UTF-8 (see `exact_bytes.py`).
        special: Special tokens that become ids.
    """
    absent = encoder.definition.absent_bytes
    start = 0  # offset of the text between two invalid bytes
    for valid, invalid in text_and_bytes(data):
        text = valid.decode()
        for word in encoder.located_words(text, special):
            encoded = word.text.encode()
            if word.token_id is not None or encoded in encoder.definition.whole_words:
                continue
            for offset, byte in enumerate(encoded):
                if byte in absent:
                    yield byte, start + len(text[: word.start].encode()) + offset
        start += len(valid)
        for offset, byte in enumerate(invalid):
            if byte in absent:
                yield byte, start + offset
        start += len(invalid)


def absent_byte_error(byte: int, where: str) -> InputError:
    """Return the error for a byte of a text that is not in the vocabulary.

    Args:
        byte: Value of the byte.
        where: Place of the byte, such as "at offset 5".
    """
    return InputError(
        f"the vocabulary has no token for the byte {byte:#04x} {where}",
        remedy="add the byte to the vocabulary, or remove it from the text",
    )
