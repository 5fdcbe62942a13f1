"""Checks for texts passed by callers, and errors for texts that cannot be encoded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.messages import short_repr
from cs336_basics.text.text_changes import TextChanges
from cs336_basics.tokenizer.encoders.encoder import AbsentByteError


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


def explained(
    error: UnicodeEncodeError | AbsentByteError, text: str | bytes, start: int = 0
) -> ValueError:
    """Return a ValueError that names the character and position where an encoder failed.

    Args:
        error: Error raised by an encoder.
        text: Text that was being encoded.
        start: Position of `text` in the whole text, in characters.
    """
    if isinstance(error, UnicodeEncodeError):
        surrogate = ord(error.object[error.start])
        return InputError(
            f"the text contains the lone surrogate U+{surrogate:04X} at character "
            f"{start + error.start:,}; surrogates cannot be encoded as UTF-8"
        )
    data = text if isinstance(text, bytes) else text.encode()
    before = data[: error.offset].decode(errors="ignore")  # drops an incomplete last character
    character = data[len(before.encode()) :][:4].decode(errors="ignore")[0]
    return InputError(
        f"the vocabulary has no token for the byte {error.byte:#04x} of {character!r} at character "
        f"{start + len(before):,} of the text; add the byte to the vocabulary, or remove the "
        "character"
    )


def absent_in_word(error: AbsentByteError, word: str | bytes) -> ValueError:
    """Return a ValueError that names the word that an encoder could not encode."""
    return InputError(
        f"word {short_repr(word)} needs the byte {error.byte:#04x}, which is not in the "
        "vocabulary; add the byte to the vocabulary, or leave out the word"
    )
