"""IncrementalEncoder: encode text as it arrives. It is the counterpart of StreamingDecoder."""

from __future__ import annotations

import codecs
from collections.abc import Collection

from cs336_basics.pretokenization.reading.corpus import ENCODING_ERRORS, check_errors
from cs336_basics.pretokenization.reading.text_changes import TextChanges
from cs336_basics.pretokenization.reading.utf8_errors import invalid_utf8_error
from cs336_basics.pretokenization.safe_cuts import SafeCutBuffer
from cs336_basics.tokenizer.encoders.encoder import AbsentByteError
from cs336_basics.tokenizer.encoders.exact_bytes import EXACT, absent_byte_error, encode_exactly
from cs336_basics.tokenizer.special_tokens import SpecialChoice
from cs336_basics.tokenizer.text_input import explained
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer


class IncrementalEncoder:
    """Encodes a text that arrives in chunks.

    The concatenated ids equal the ids of `Tokenizer.encode_array` for the whole text. A chunk may
    end within a character, a special token or a pre-token. Text is buffered until the end of a
    pre-token is certain (see `pretokenization/safe_cuts.py`). Usually the buffer contains a word or
    two; with a pattern that cannot be compiled, it contains everything since the last special
    token.

    Args:
        tokenizer: Tokenizer that encodes the text.
        errors: How to handle invalid UTF-8: `"replace"` replaces it with U+FFFD, `"strict"` raises
            ValueError, and `"bytes"` encodes it losslessly (see `exact_bytes.py`).
        allowed_special, disallowed_special: See `Tokenizer.encode`. By default, all special tokens
            become ids.

    Raises:
        TypeError: If `tokenizer` is not a Tokenizer.
        ValueError: If `errors` is unknown, or a given special token is not in the tokenizer.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        errors: str = "replace",
        allowed_special: str | Collection[str] | None = None,
        disallowed_special: str | Collection[str] = (),
    ) -> None:
        check_is_tokenizer(tokenizer)
        check_errors(errors, ENCODING_ERRORS)
        self._encoder = tokenizer.encoder
        choice = SpecialChoice(tokenizer.encoder.all_special, tokenizer.special_tokens)
        self._special = choice.sets(allowed_special, disallowed_special)
        self._cuts = self._special.splitter(tokenizer.splitter).safe_cuts
        self._errors = errors
        self._reset()

    def feed(self, text: str | bytes) -> list[int]:
        """Add a chunk and return the ids that are now certain. The list may be empty.

        Args:
            text: Chunk of text, as str or UTF-8 bytes. The two types may be mixed.

        Raises:
            TypeError: If `text` is neither str nor bytes; the encoder keeps its state.
            ValueError: If `text` contains a lone surrogate; the encoder keeps its state. Also
                raised if bytes are not UTF-8 (with `"strict"`) or have no token, or if the text
                contains a disallowed special token; the message includes the position in the whole
                text, and the encoder is reset.
        """
        if isinstance(text, str):
            try:
                text = text.encode()
            except UnicodeEncodeError as error:
                raise explained(error, text) from None
        elif not isinstance(text, bytes):
            raise TypeError(f"text must be str or bytes, not {type(text).__name__}")
        if self._errors == "strict":
            self._check_utf8(text)
        return self._encode(self._buffer.add(text))

    def finish(self) -> list[int]:
        """Return the ids of the buffered text, and reset the encoder for another text.

        Raises:
            ValueError: See `feed`.

        Warns:
            UserWarning: If invalid UTF-8 was replaced with U+FFFD (with `"replace"`).
        """
        ids = self._encode(self._buffer.rest())
        changes = self._changes
        changes.num_bytes = self._offset
        self._reset()  # before the warning, which may raise an error
        changes.warn("", "encoded")
        return ids

    def _check_utf8(self, data: bytes) -> None:
        """Reject invalid UTF-8 before it is buffered."""
        waiting = self._checker.getstate()[0]  # the start of an incomplete character
        try:
            self._checker.decode(data)
        except UnicodeDecodeError as error:
            offset = self._num_fed - len(waiting) + error.start
            byte = (waiting + data)[error.start]
            self._reset()
            raise invalid_utf8_error(None, byte, offset) from None
        self._num_fed += len(data)

    def _reset(self) -> None:
        self._buffer = SafeCutBuffer(self._cuts)
        self._changes = TextChanges()
        self._offset = 0  # bytes encoded so far
        self._num_characters = 0  # characters encoded so far
        self._checker = codecs.getincrementaldecoder("utf-8")()
        self._num_fed = 0  # bytes that `_checker` has seen

    def _encode(self, data: bytes) -> list[int]:
        if not data:
            return []
        try:
            ids = self._ids(data)
        except BaseException:  # the ids of `data` would be lost
            self._reset()
            raise
        self._offset += len(data)
        return ids

    def _check_special(self, text: str) -> None:
        self._special.check(text, self._num_characters)
        self._num_characters += len(text)

    def _ids(self, data: bytes) -> list[int]:
        encoder, start, valid = self._encoder, self._offset, data
        try:
            if self._errors == EXACT:
                self._check_special(data.decode("utf-8", "surrogateescape"))
                ids: list[int] = encode_exactly(encoder, data, self._special.allowed).tolist()
                return ids
            valid = self._changes.utf8_of(data, self._errors, start=start)
            text = valid.decode()
            self._check_special(text)
            return encoder.encode(text, self._special.allowed)
        except AbsentByteError as error:
            where = f"at offset {start + error.offset:,}"
            if valid is not data:  # U+FFFD and the bytes that it replaced may differ in length
                where = f"in the text from offset {start:,} on"
            raise absent_byte_error(error.byte, where) from None
