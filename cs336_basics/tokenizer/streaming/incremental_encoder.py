"""IncrementalEncoder: text to ids while the text arrives, the counterpart of StreamingDecoder."""

from __future__ import annotations

import codecs
from collections.abc import Collection

from cs336_basics.pretokenization.reading.corpus import ENCODING_ERRORS, check_errors
from cs336_basics.pretokenization.reading.text_changes import TextChanges, replaced_in
from cs336_basics.pretokenization.reading.utf8_errors import checked_utf8, invalid_utf8_error
from cs336_basics.pretokenization.safe_cuts import SafeCutBuffer
from cs336_basics.tokenizer.encoders.encoder import AbsentByteError
from cs336_basics.tokenizer.encoders.exact_bytes import EXACT, absent_byte_error, encode_exactly
from cs336_basics.tokenizer.special_tokens import SpecialChoice
from cs336_basics.tokenizer.text_input import explained
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer


class IncrementalEncoder:
    """Encodes a text that is fed in chunks, with the ids of the whole text wherever they end.

    A chunk may end within a character, a special token or a pre-token. What cannot be encoded yet
    waits: what is after the last offset that is known to be the end of a pre-token (see
    `pretokenization/safe_cuts.py`). That is mostly a word or two; with a pattern that cannot be
    compiled, everything after the last special token. All returned ids, joined, are those that
    `Tokenizer.encode_array` gives for the whole text.

    Args:
        tokenizer: has the vocabulary.
        errors: what to do with bytes that are not UTF-8: `"replace"` reads them as U+FFFD,
            `"strict"` refuses them, `"bytes"` encodes them exactly (see `exact_bytes.py`).
        allowed_special, disallowed_special: the special tokens that become ids, and those that are
            refused, as `Tokenizer.encode`. By default all become ids.

    Raises:
        TypeError: `tokenizer` is not a Tokenizer.
        ValueError: `errors` is unknown, or a special token is not one of the tokenizer's.
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
        """Add a chunk, and return the ids that are certain now: often some, sometimes none.

        Args:
            text: text, or its UTF-8. Both may be fed in turn: a str is fed as its UTF-8.

        Raises:
            TypeError: neither str nor bytes; nothing is added.
            ValueError: a lone surrogate; nothing is added. Bytes that are not UTF-8 (`"strict"`),
                with their offset from the beginning, a byte that the vocabulary lacks, or a
                disallowed special token, with its position in characters: the encoder then starts
                over.
        """
        if isinstance(text, str):
            try:
                text = text.encode()
            except UnicodeEncodeError as error:
                raise explained(error, text) from None
        elif not isinstance(text, bytes):
            raise TypeError(f"text is of type {type(text).__name__}: feed str or bytes")
        if self._errors == "strict":
            self._check_utf8(text)
        return self._encode(self._buffer.add(text))

    def finish(self) -> list[int]:
        """Return the ids of the rest; the encoder can then be used for another text.

        Raises:
            ValueError: as `feed`; the encoder then starts over.

        Warns:
            UserWarning: bytes were read as U+FFFD (`"replace"`).
        """
        ids = self._encode(self._buffer.rest())
        changes = self._changes
        changes.num_bytes = self._offset
        self._reset()  # before the warning, which may be an error
        changes.warn("", "encoded")
        return ids

    def _check_utf8(self, data: bytes) -> None:
        """Refuse bytes that are not UTF-8 when they are fed, not when they are encoded."""
        waiting = self._checker.getstate()[0]  # the beginning of a character
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
        self._offset = 0  # bytes that were encoded
        self._num_characters = 0  # the same, as the text that was encoded
        self._checker = codecs.getincrementaldecoder("utf-8")()
        self._num_fed = 0  # bytes that it has seen

    def _encode(self, data: bytes) -> list[int]:
        if not data:
            return []
        try:
            ids = self._ids(data)
        except BaseException:  # the ids of this text are lost
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
            valid = checked_utf8(data, self._errors, start=start)
            if valid is not data:
                self._changes.add_replaced("", replaced_in(data, start))
            text = valid.decode()
            self._check_special(text)
            return encoder.encode(text, self._special.allowed)
        except AbsentByteError as error:
            where = f"at offset {start + error.offset:,}"
            if valid is not data:  # U+FFFD has another length than the bytes that it replaces
                where = f"in the text from offset {start:,} on"
            raise absent_byte_error(error.byte, where) from None
