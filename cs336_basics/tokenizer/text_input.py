"""Checks for texts passed by callers, and errors for texts that cannot be encoded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.messages import short_repr
from cs336_basics.text.text_changes import TextChanges
from cs336_basics.tokenizer.encoders.absent_bytes import (
    AbsentByteError,
    absent_byte_error,
    absent_bytes_in,
)
from cs336_basics.tokenizer.encoders.encoder import Encoder


def check_is_iterable(name: str, value: object, of: str) -> None:
    """Raise TypeError if the argument called `name` is not iterable or is a single text."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise InputTypeError(f"{name} must be a list of {of}, got {short_repr(value)}")


def text_column(row: Mapping[str, Any]) -> Any:
    """Return the `text` column of a row or a batch of rows.

    Raises:
        ValueError: If there is no such column.
    """
    if "text" not in row:
        raise InputError(
            f"the row has no column 'text', only {short_repr(list(row))}; pass the texts, or name "
            "their column: dataset.map(tokenizer, input_columns=NAME)"
        )
    return row["text"]


def replaced_utf8(data: bytes, errors: str) -> bytes:
    """Return bytes as valid UTF-8, and warn if they had to be changed."""
    changes = TextChanges(len(data))
    valid = changes.utf8_of(data, errors)
    changes.warn("", "encoded")
    return valid


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
