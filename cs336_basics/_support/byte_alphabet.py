"""GPT-2's byte alphabet, which represents each byte of a token as one printable character.

It comes from `encoder.py` in GPT-2's code (Radford et al. 2019). Files of other libraries write
tokens in it, and `tokenizers` breaks ties between pairs by its order.
"""

from __future__ import annotations

import functools


@functools.cache
def byte_to_character() -> dict[int, str]:
    """Return GPT-2's mapping from bytes to printable characters.

    The printable characters of Latin-1 (33-126, 161-172, 174-255) represent themselves. The other
    68 bytes become U+0100, U+0101, ... in ascending order. For example, a space becomes U+0120,
    `Ġ`.
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
