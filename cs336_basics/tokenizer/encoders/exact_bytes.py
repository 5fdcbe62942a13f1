"""Lossless encoding of bytes that may not be UTF-8: `errors="bytes"`.

Valid UTF-8 is encoded as text, and each invalid byte becomes its single-byte token. A byte is
invalid if it belongs to an incomplete or forbidden sequence, as in Python's decoder with
`errors="surrogateescape"` (Unicode Standard, section 3.9). The text on each side of an invalid byte
is split separately, and no merge or special token crosses the byte. Decoding therefore restores
every byte string, and valid UTF-8 gets the same ids as the text it encodes.
"""

from __future__ import annotations

from cs336_basics._support.lazy import np
from cs336_basics.text.utf8 import text_and_bytes
from cs336_basics.tokenizer.encoders.absent_bytes import absent_in_word
from cs336_basics.tokenizer.encoders.encoder import Encoder
from cs336_basics.tokenizer.ids import TokenArray, token_dtype

EXACT = "bytes"
"""The value of `errors` for this encoding."""

BATCH_SIZE = 4096
"""Number of texts to encode in one call. In binary data, a short text begins every few bytes."""

LARGE = 1 << 18
"""Texts of at least this many bytes are encoded separately, in threads."""


def encode_exactly(
    encoder: Encoder, data: bytes, special: frozenset[str], num_workers: int = 1
) -> TokenArray:
    """Return the ids of arbitrary bytes as an array of `token_dtype`; see the module docstring.

    Args:
        encoder: Encoder for the text between invalid bytes.
        data: Any bytes.
        special: Special tokens that become ids.
        num_workers: Number of threads for long texts.

    Raises:
        AbsentByteError: If the vocabulary does not contain a byte.
    """
    arrays = [np.zeros(0, token_dtype(encoder.definition.size))]
    batch: list[tuple[bytes, bytes]] = []
    for text, invalid in text_and_bytes(data):
        if len(text) >= LARGE or len(batch) == BATCH_SIZE:
            arrays.append(_encode_batch(encoder, batch, special))
            batch = []
        if len(text) >= LARGE:
            arrays.append(encoder.encode_array(text, special, num_workers))
            batch.append((b"", invalid))
        else:
            batch.append((text, invalid))
    arrays.append(_encode_batch(encoder, batch, special))
    return np.concatenate(arrays)


def _encode_batch(
    encoder: Encoder, batch: list[tuple[bytes, bytes]], special: frozenset[str]
) -> TokenArray:
    """Return the ids of texts, each followed by the ids of the invalid bytes after it."""
    ids, num_ids = encoder.encode_documents([text for text, _ in batch], special)
    invalid_bytes = b"".join(invalid for _, invalid in batch)
    if absent := encoder.definition.absent_bytes.intersection(invalid_bytes):
        raise absent_in_word(bytes(absent), 0)
    byte_ids = np.array(encoder.definition.byte_ids, np.int64)
    byte_ids = byte_ids[np.frombuffer(invalid_bytes, np.uint8)]
    ends_of_texts = np.cumsum(num_ids, dtype=np.int64)
    counts = [len(invalid) for _, invalid in batch]
    dtype = token_dtype(encoder.definition.size)
    return np.insert(ids, np.repeat(ends_of_texts, counts), byte_ids.astype(dtype))
