"""Words to which the library's former hash function, which had no seed, gave the same hash.

For every 16 bytes of a word, that function multiplied `low ^ LOW` by `high ^ HIGH`, where `low`
was combined with the hash of the preceding bytes. After the 16 bytes of `_START`, the next eight
bytes set the first factor to 0, so the following eight bytes do not matter. The last 16 bytes
select a hash near the end of a table.
"""

from __future__ import annotations

import random

_LOW, _HIGH, _FACTOR = 0xF43F6A8885A308D3, 0xADF85458A2BB4A9A, 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_START = "snTZklxcBtomAxjq"  # found after 600,000 trials
_END = "smwVojwYacfRWNcN"  # found after 1.7 billion trials; the hash is near 2^64
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _hash_16(low: int, high: int) -> int:
    product = (low ^ _LOW) * (high ^ _HIGH)
    return ((product & _MASK ^ product >> 64) + _FACTOR * low) & _MASK


def hash_without_seed(word: bytes) -> int:
    """Return the former hash of a word of at least 16 bytes."""
    blocks = [word[i : i + 16] for i in range(0, len(word) - 15, 16)]
    value = len(word)
    for block in [*blocks, word[-16:]]:
        low, high = int.from_bytes(block[:8], "little"), int.from_bytes(block[8:], "little")
        value = _hash_16(low ^ value, (high + value) & _MASK)
    return value


def colliding_words(number: int) -> list[str]:
    """Return distinct 48-letter words that all have the same `hash_without_seed`."""
    zero = (_LOW ^ _hash_16(*_words_of(_START, 48))).to_bytes(8, "little").decode()
    rng = random.Random(1)
    tails = {"".join(rng.choices(_LETTERS, k=8)) for _ in range(number)}
    return [f"{_START}{zero}{tail}{_END}" for tail in sorted(tails)]


def _words_of(block: str, value: int) -> tuple[int, int]:
    data = block.encode()
    low, high = int.from_bytes(data[:8], "little"), int.from_bytes(data[8:], "little")
    return low ^ value, (high + value) & _MASK
