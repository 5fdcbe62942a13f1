"""IncrementalEncoder: encode text as it arrives. It is the counterpart of StreamingDecoder."""

from __future__ import annotations

from collections.abc import Collection

from cs336_basics.pretokenization.reading.corpus import ENCODING_ERRORS, check_errors
from cs336_basics.tokenizer.special_tokens import special_sets
from cs336_basics.tokenizer.streaming.text_stream import TextStream
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer


class IncrementalEncoder(TextStream):
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
        special = special_sets(tokenizer.encoder.all_special, allowed_special, disallowed_special)
        super().__init__(tokenizer.encoder, tokenizer.splitter, special, errors)
