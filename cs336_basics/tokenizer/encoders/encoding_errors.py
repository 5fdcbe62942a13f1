"""Texts that an encoder cannot encode: surrogates, and bytes without a token."""

from __future__ import annotations

from cs336_basics._support.errors import Argument, InputError
from cs336_basics.text.utf8 import joined_surrogates, lone_surrogate
from cs336_basics.tokenizer.encoders.absent_bytes import absent_byte_error, absent_bytes_in
from cs336_basics.tokenizer.encoders.encoder import Encoder


def without_surrogates(text: str, start: int = 0) -> str:
    """Return a text that contains surrogates with each pair as one character.

    Args:
        text: A text that raised UnicodeEncodeError.
        start: Position of this text in the whole text, in characters.

    Raises:
        InputError: If a surrogate is not half of a pair. The message includes it and its position.
    """
    index = lone_surrogate(text)
    if index is None:
        return joined_surrogates(text)
    raise InputError(
        f"the text contains the lone surrogate U+{ord(text[index]):04X} at character "
        f"{start + index:,}, which cannot be encoded as UTF-8",
        remedy=("remove it, or use encode_array with ", Argument("errors", "replace")),
    )


def explained(
    encoder: Encoder,
    text: str | bytes,
    special: frozenset[str],
    start: int = 0,
) -> InputError:
    """Return an InputError that names the absent byte at which an encoder failed.

    Args:
        encoder, text, special: The encoder and its arguments.
        start: Position of `text` in the whole text, in characters of a str or bytes.
    """
    data = text if isinstance(text, bytes) else text.encode()
    byte, offset = next(absent_bytes_in(encoder, data, special))
    if isinstance(text, bytes):
        return absent_byte_error(byte, f"at offset {start + offset:,}")
    position = len(data[:offset].decode(errors="ignore"))  # drops an incomplete last character
    where = f"of {text[position]!r} at character {start + position:,} of the text"
    return absent_byte_error(byte, where)
