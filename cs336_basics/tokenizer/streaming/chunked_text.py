"""Encoding text in chunks, with only a few chunks in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cs336_basics.pretokenization.safe_cuts import SafeCutBuffer
from cs336_basics.pretokenization.splitter import Splitter, check_is_str
from cs336_basics.tokenizer.encoders.encoder import AbsentByteError, Encoder
from cs336_basics.tokenizer.special_tokens import SpecialSets
from cs336_basics.tokenizer.text_input import explained

# These limits keep the memory use of encode_iterable below a megabyte: bytes to read before
# searching for a safe cut, characters of a huge chunk to read at a time, and bytes of cached words.
READ_AHEAD = 1 << 11
SLICE_SIZE = 1 << 13
ITERABLE_CACHE_SIZE = 448 << 10


def encode_chunks(
    encoder: Encoder,
    splitter: Splitter,
    chunks: Iterable[str],
    special: SpecialSets,
    cache_size: int,
) -> Iterator[int]:
    """Yield the ids of a text given in chunks; see `Tokenizer.encode_iterable`."""
    encoder = encoder.with_own_cache(min(cache_size, ITERABLE_CACHE_SIZE))
    start = 0
    for text in independent_texts(chunks, special.splitter(splitter)):
        special.check(text, start)
        try:
            ids = encoder.encode(text, special.allowed)
        except AbsentByteError as error:
            raise explained(error, text, start) from None
        yield from ids
        start += len(text)


def independent_texts(chunks: Iterable[str], splitter: Splitter) -> Iterator[str]:
    """Regroup the chunks of a text so that each can be encoded separately without changing the ids.

    Raises:
        TypeError: If a chunk is not a str.
        ValueError: If a chunk contains a lone surrogate. The message includes its position in the
            whole text.
    """
    buffer = SafeCutBuffer(splitter.safe_cuts, READ_AHEAD)
    num_characters = 0
    for chunk in chunks:
        check_is_str(chunk)
        # Huge chunks are read in slices to keep the buffer small.
        for start in range(0, len(chunk), SLICE_SIZE):
            part = chunk[start : start + SLICE_SIZE]
            try:
                data = part.encode()
            except UnicodeEncodeError as error:
                raise explained(error, part, num_characters) from None
            num_characters += len(part)
            if independent := buffer.add(data):
                yield independent.decode()
    yield buffer.rest().decode()
