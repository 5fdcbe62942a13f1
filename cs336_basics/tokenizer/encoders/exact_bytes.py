"""Lossless encoding of bytes that may not be UTF-8: `errors="bytes"`.

Valid UTF-8 is encoded as text, and each invalid byte becomes its single-byte token. A byte is
invalid if it belongs to an incomplete or forbidden sequence, as in Python's decoder with
`errors="surrogateescape"` (Unicode Standard, section 3.9). The text on each side of an invalid byte
is split separately, and no merge or special token crosses the byte. Decoding therefore restores
every byte string, and valid UTF-8 gets the same ids as the text it encodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from cs336_basics._support.errors import InputError
from cs336_basics._support.lazy import np
from cs336_basics.text.utf8 import text_and_bytes
from cs336_basics.tokenizer.encoders.encoder import AbsentByteError, Encoder
from cs336_basics.tokenizer.ids import TokenArray, token_dtype
from cs336_basics.tokenizer.vocabulary import ABSENT

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
        AbsentByteError: If the vocabulary does not contain a byte; `offset` is its offset in
            `data`.
    """
    arrays = [np.zeros(0, token_dtype(encoder.vocabulary.size))]
    batch: list[tuple[bytes, bytes]] = []
    offset = start = 0  # offsets of the next text and of the batch
    for text, invalid in text_and_bytes(data):
        if len(text) >= LARGE or len(batch) == BATCH_SIZE:
            arrays.append(_encode_batch(encoder, batch, special, start))
            batch, start = [], offset
        if len(text) >= LARGE:
            try:
                arrays.append(encoder.encode_array(text, special, num_workers))
            except AbsentByteError as error:
                error.offset += offset
                raise
            start += len(text)
            batch.append((b"", invalid))
        else:
            batch.append((text, invalid))
        offset += len(text) + len(invalid)
    arrays.append(_encode_batch(encoder, batch, special, start))
    return np.concatenate(arrays)


def _encode_batch(
    encoder: Encoder, batch: list[tuple[bytes, bytes]], special: frozenset[str], start: int
) -> TokenArray:
    """Return the ids of texts, each followed by the ids of the invalid bytes after it.

    `start` is the offset of the first text, used in error messages.
    """
    texts = [text for text, _ in batch]
    try:
        ids, num_ids = encoder.encode_documents(texts, special)
    except AbsentByteError as error:
        before = batch[: error.item]
        _check_invalid_bytes(encoder.vocabulary.byte_ids, before, start)
        error.offset += start + sum(len(text) + len(invalid) for text, invalid in before)
        error.item = 0
        raise
    _check_invalid_bytes(encoder.vocabulary.byte_ids, batch, start)
    invalid = np.frombuffer(b"".join(invalid for _, invalid in batch), np.uint8)
    byte_ids = np.array(encoder.vocabulary.byte_ids, np.int64)[invalid]
    ends_of_texts = np.cumsum(num_ids, dtype=np.int64)
    counts = [len(invalid) for _, invalid in batch]
    dtype = token_dtype(encoder.vocabulary.size)
    return np.insert(ids, np.repeat(ends_of_texts, counts), byte_ids.astype(dtype))


def _check_invalid_bytes(
    byte_ids: Sequence[int], batch: list[tuple[bytes, bytes]], start: int
) -> None:
    """Raise AbsentByteError for the first invalid byte that is not in the vocabulary."""
    absent = {byte for byte, token_id in enumerate(byte_ids) if token_id == ABSENT}
    if not absent:
        return
    offset = start
    for text, invalid in batch:
        offset += len(text)
        for byte in invalid:
            if byte in absent:
                raise AbsentByteError(byte, offset=offset)
            offset += 1


def absent_byte_error(byte: int, where: str) -> ValueError:
    """Return the error for a byte that is not in the vocabulary.

    Args:
        byte: Value of the byte.
        where: Location of the byte, for example "at offset 5".
    """
    return InputError(
        f"the vocabulary has no token for the byte {byte:#04x} {where}; add the byte to the "
        "vocabulary, or remove it from the text"
    )
