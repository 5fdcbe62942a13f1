"""Texts as callers pass them: what is accepted, and the errors that name what is not."""

from __future__ import annotations

from collections.abc import Iterable

from cs336_basics._support.messages import short_repr
from cs336_basics.pretokenization.reading.text_changes import TextChanges, replaced_in
from cs336_basics.pretokenization.reading.utf8_errors import checked_utf8
from cs336_basics.tokenizer.encoders.encoder import AbsentByteError


def check_is_iterable(name: str, value: object, of: str) -> None:
    """Raise TypeError for an argument that is not several things, or is a single text."""
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{name} is the single text {short_repr(value)}: pass a list of {of}")
    if not isinstance(value, Iterable):
        raise TypeError(f"{name} is {short_repr(value)}: pass a list of {of}")


def replaced_utf8(data: bytes, errors: str) -> bytes:
    """Return an argument as valid UTF-8, as `checked_utf8`; warn of changes."""
    valid = checked_utf8(data, errors)
    if valid is not data:
        changes = TextChanges(len(data))
        changes.add_replaced("", replaced_in(data))
        changes.warn("", "encoded")
    return valid


def explained(
    error: UnicodeEncodeError | AbsentByteError, text: str | bytes, start: int = 0
) -> ValueError:
    """Return the error of an encoder as one that names the character and its position.

    Args:
        error: what an encoder raised.
        text: the text that it encoded.
        start: position of `text` in the whole text, in characters.
    """
    if isinstance(error, UnicodeEncodeError):
        surrogate = ord(error.object[error.start])
        return ValueError(
            f"the text holds the lone surrogate U+{surrogate:04X} at character "
            f"{start + error.start:,}: it is not a character and has no UTF-8"
        )
    data = text if isinstance(text, bytes) else text.encode()
    before = data[: error.offset].decode(errors="ignore")  # without an incomplete character
    character = data[len(before.encode()) :][:4].decode(errors="ignore")[0]
    return ValueError(
        f"the vocabulary has no token for the byte {error.byte:#04x} of {character!r} at character "
        f"{start + len(before):,} of the text: add it to the vocabulary, or remove the character"
    )


def absent_in_word(error: AbsentByteError, word: str | bytes) -> ValueError:
    """Return the error of an encoder as one that names the word of a list of words."""
    return ValueError(
        f"word {short_repr(word)} needs the byte {error.byte:#04x}, which the vocabulary lacks"
    )
