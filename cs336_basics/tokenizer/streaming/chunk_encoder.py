"""Encode text as it arrives, with only a few chunks in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from cs336_basics._support.errors import InputTypeError
from cs336_basics.splitting.splitter import check_is_str
from cs336_basics.text.cuts import SafeCutBuffer
from cs336_basics.text.reading_record import ReadingRecord
from cs336_basics.text.utf8 import ENCODING_ERRORS, check_errors, is_valid_utf8
from cs336_basics.tokenizer.encoders.absent_bytes import AbsentByteError
from cs336_basics.tokenizer.encoders.encoder import Encoder
from cs336_basics.tokenizer.encoders.encoding_errors import explained, without_surrogates
from cs336_basics.tokenizer.encoders.exact_bytes import EXACT, encode_exactly
from cs336_basics.tokenizer.special_tokens import special_sets

# These limits keep the memory use of `encode_iterable` below a megabyte.
READ_AHEAD = 1 << 11  # bytes to collect before they are encoded
SLICE_SIZE = 1 << 13  # characters of a huge chunk to read at a time
ITERABLE_CACHE_SIZE = 448 << 10  # bytes of cached words


class ChunkEncoder:
    """Encodes a text that arrives in chunks; see `IncrementalEncoder`.

    Args:
        encoder: Encoder of the tokenizer.
        errors, allowed_special, disallowed_special: See `IncrementalEncoder`.
    """

    def __init__(
        self,
        encoder: Encoder,
        errors: str,
        allowed_special: str | Collection[str] | None,
        disallowed_special: str | Collection[str],
    ) -> None:
        check_errors(errors, ENCODING_ERRORS)
        self._encoder = encoder
        self._special = special_sets(encoder, allowed_special, disallowed_special)
        self._cuts = encoder.safe_cuts(self._special.found)
        self._errors = errors
        self._reset()

    def feed(self, text: str | bytes) -> list[int]:
        """Add a chunk and return the ids that are now certain. The list may be empty.

        Args:
            text: Chunk of text, as str or UTF-8 bytes. The two types may be mixed.

        Raises:
            TypeError: If `text` is neither str nor bytes; the encoder keeps its state.
            ValueError: If `text` contains a lone surrogate (unless `errors` is `"replace"`); the
                encoder keeps its state. Also raised if bytes are not UTF-8 (with `"strict"`) or
                have no token, or if the text contains a disallowed special token; the message
                includes the position in the whole text, and the encoder is reset.
        """
        if not isinstance(text, (str, bytes)):
            raise InputTypeError(
                f"must be str or bytes, not {type(text).__name__}", argument="text"
            )
        data = self._surrogates.utf8_of(text, self._errors)
        return self._encode(self._buffer.add(data))

    def finish(self) -> list[int]:
        """Return the ids of the buffered text, and reset the encoder for another text.

        Raises:
            ValueError: See `feed`.

        Warns:
            UserWarning: If invalid UTF-8 was replaced with U+FFFD (with `"replace"`).
        """
        return self._finish(b"")

    def _finish(self, last: bytes) -> list[int]:
        """Add the last chunk and return the remaining ids; see `finish`."""
        last += self._surrogates.utf8_of(b"", self._errors)
        ids = self._encode(self._buffer.rest() + last)
        reading = self._reading
        reading.num_bytes = self._offset
        self._reset()  # before the warning, which may raise an error
        reading.warn()
        return ids

    def _reset(self) -> None:
        self._buffer = SafeCutBuffer(self._cuts)
        self._reading = ReadingRecord()
        self._surrogates = SurrogateJoiner(self._reading)
        self._offset = 0  # bytes encoded so far
        self._num_characters = 0  # characters encoded so far

    def _encode(self, data: bytes) -> list[int]:
        if not data:
            return []
        try:
            ids = self._ids(data)
        except BaseException:  # the ids of `data` are lost, so the text cannot be continued
            self._reset()
            raise
        self._offset += len(data)
        return ids

    def _ids(self, data: bytes) -> list[int]:
        valid, allowed, start = data, self._special.allowed, self._num_characters
        is_text = self._errors != EXACT or is_valid_utf8(data)
        if self._errors != EXACT:
            valid = self._reading.utf8_of(data, self._errors, start=self._offset)
        text = valid.decode("utf-8", "surrogateescape")
        self._special.check(text, start)
        self._num_characters += len(text)
        try:
            if is_text:
                return self._encoder.encode(text, allowed)
            ids: list[int] = encode_exactly(self._encoder, data, allowed).tolist()
            return ids
        except AbsentByteError:
            if self._errors == EXACT:
                raise explained(self._encoder, data, allowed, self._offset) from None
            raise explained(self._encoder, text, allowed, start) from None


def encode_chunks(
    encoder: Encoder,
    cache_size: int,
    chunks: Iterable[str],
    allowed_special: str | Collection[str] | None,
    disallowed_special: str | Collection[str],
) -> Iterator[int]:
    """Yield the ids of a text given in chunks; see `Tokenizer.encode_iterable`.

    Args:
        encoder: Encoder of the tokenizer.
        cache_size: Maximum memory for cached words in bytes.
        chunks, allowed_special, disallowed_special: See `Tokenizer.encode_iterable`.
    """
    own = encoder.with_own_cache(min(cache_size, ITERABLE_CACHE_SIZE))
    stream = ChunkEncoder(own, "replace", allowed_special, disallowed_special)
    collected = bytearray()
    surrogates = SurrogateJoiner(ReadingRecord())
    for chunk in chunks:
        check_is_str(chunk)
        # Huge chunks are read in slices to keep the buffer small.
        for start in range(0, len(chunk), SLICE_SIZE):
            collected += surrogates.utf8_of(chunk[start : start + SLICE_SIZE], "strict")
            if len(collected) >= READ_AHEAD:
                yield from stream.feed(bytes(collected))
                collected.clear()
    collected += surrogates.utf8_of(b"", "strict")
    yield from stream._finish(bytes(collected))


class SurrogateJoiner:
    """Joins surrogate pairs, also those that are divided between two chunks.

    Args:
        reading: Record of the surrogates that are replaced.
    """

    def __init__(self, reading: ReadingRecord) -> None:
        self._reading = reading
        self._high = ""  # the first half of a pair, at the end of the last chunk
        self._num_characters = 0  # before `_high`

    def utf8_of(self, text: str | bytes, errors: str) -> bytes:
        """Return a chunk as UTF-8. The half of a pair at its end is added to the next chunk.

        Bytes are returned as they are; no pair continues in them.

        Raises:
            ValueError: If a surrogate is not half of a pair, and `errors` is not `"replace"`.
        """
        joined = self._high + text if isinstance(text, str) else self._high
        try:
            data, high = joined.encode(), ""
        except UnicodeEncodeError:
            is_half = isinstance(text, str) and "\ud800" <= joined[-1] <= "\udbff"
            high = joined[-1] if is_half else ""
            complete = joined[: len(joined) - len(high)]
            if errors == "replace":
                data = self._reading.utf8_of(complete, errors)
            else:
                data = without_surrogates(complete, self._num_characters).encode()
        self._num_characters += len(joined) - len(high)
        self._high = high
        return data + text if isinstance(text, bytes) else data
