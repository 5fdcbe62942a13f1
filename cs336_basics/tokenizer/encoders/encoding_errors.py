"""Errors for texts that cannot be encoded."""

from __future__ import annotations

from cs336_basics._support.errors import InputError
from cs336_basics.tokenizer.encoders.absent_bytes import (
    AbsentByteError,
    absent_byte_error,
    absent_bytes_in,
)
from cs336_basics.tokenizer.encoders.encoder import Encoder


def lone_surrogate_error(error: UnicodeEncodeError, start: int = 0) -> InputError:
    """Return an InputError that names a surrogate and its position in characters.

    Args:
        error: Error raised for a text.
        start: Position of this text in the whole text, in characters.
    """
    surrogate = ord(error.object[error.start])
    return InputError(
        f"the text contains the lone surrogate U+{surrogate:04X} at character "
        f"{start + error.start:,}; surrogates cannot be encoded as UTF-8"
    )


def explained(
    error: UnicodeEncodeError | AbsentByteError,
    encoder: Encoder,
    text: str | bytes,
    special: frozenset[str],
    start: int = 0,
) -> InputError:
    """Return an InputError that names the place where an encoder failed.

    Args:
        error: Error raised by the encoder.
        encoder, text, special: The encoder and its arguments.
        start: Position of `text` in the whole text, in characters of a str or bytes.
    """
    if isinstance(error, UnicodeEncodeError):
        return lone_surrogate_error(error, start)
    data = text if isinstance(text, bytes) else text.encode()
    byte, offset = next(absent_bytes_in(encoder, data, special))
    if isinstance(text, bytes):
        return absent_byte_error(byte, f"at offset {start + offset:,}")
    position = len(data[:offset].decode(errors="ignore"))  # drops an incomplete last character
    where = f"of {text[position]!r} at character {start + position:,} of the text"
    return absent_byte_error(byte, where)
