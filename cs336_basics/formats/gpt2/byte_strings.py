"""Bytes as printable text: each byte of a token is one character in vocab.json and merges.txt.

Radford et al. 2019, the `encoder.py` of GPT-2's code.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

NO_BYTE = 0x100


@functools.cache
def byte_to_character() -> dict[int, str]:
    """Return GPT-2's map from byte to printable character.

    The printable characters of Latin-1 (33-126, 161-172, 174-255) represent themselves; the other
    68 bytes, in ascending order, become U+0100, U+0101, ... So a space is U+0120, `Ġ`.
    """
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = [byte for byte in range(256) if byte not in printable]
    return {
        byte: chr(byte) if byte in printable else chr(0x100 + others.index(byte))
        for byte in range(256)
    }


@functools.cache
def character_to_byte() -> dict[str, int]:
    """Return the inverse of `byte_to_character`."""
    return {character: byte for byte, character in byte_to_character().items()}


def token_to_string(token: bytes) -> str:
    """Return the printable string that represents a token in vocab.json and merges.txt."""
    characters = byte_to_character()
    return "".join([characters[byte] for byte in token])


def string_to_token(string: str) -> bytes:
    """Return the token that a string represents, the inverse of `token_to_string`.

    Raises:
        KeyError: a character that represents no byte.
    """
    to_byte = character_to_byte()
    return bytes([to_byte[character] for character in string])


def strings_to_tokens(strings: Sequence[str]) -> list[bytes | None]:
    """Return the token of each string, None where a character represents no byte.

    One by one, `string_to_token` takes most of the time of loading a vocabulary: all at once takes
    a fifth of it.
    """
    codes = np.frombuffer("".join(strings).encode("utf-32-le", "surrogatepass"), "<u4")
    values = byte_of_code()[np.minimum(codes, NO_BYTE + 68)]
    ends = np.cumsum(np.fromiter(map(len, strings), np.int64, len(strings)))
    data = values.astype(np.uint8).tobytes()
    tokens: list[bytes | None] = []
    start = 0
    for end in ends.tolist():
        tokens.append(data[start:end])
        start = end
    for index in np.searchsorted(ends, np.flatnonzero(values == NO_BYTE), side="right").tolist():
        tokens[index] = None
    return tokens


@functools.cache
def byte_of_code() -> npt.NDArray[np.uint16]:
    """Return code point -> byte, NO_BYTE for one that represents none, shape (325,).

    The last item holds for all greater code points.
    """
    table = np.full(NO_BYTE + 69, NO_BYTE, np.uint16)
    for character, byte in character_to_byte().items():
        table[ord(character)] = byte
    return table
