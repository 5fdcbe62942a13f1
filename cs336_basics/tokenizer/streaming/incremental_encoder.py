"""IncrementalEncoder: encode text as it arrives. It is the counterpart of StreamingDecoder."""

from __future__ import annotations

from collections.abc import Collection

from cs336_basics.tokenizer.streaming.chunk_encoder import ChunkEncoder
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer


class IncrementalEncoder(ChunkEncoder):
    """Encodes a text that arrives in chunks.

    The concatenated ids equal the ids of `Tokenizer.encode_array` for the whole text. A chunk may
    end within a character, a special token or a pre-token. Text is buffered until the end of a
    pre-token is certain (see `splitting/safe_cuts.py`). Usually the buffer contains a word or
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

    Example:
        >>> from cs336_basics import Tokenizer
        >>> from cs336_basics.tokenizer import IncrementalEncoder
        >>> tokenizer = Tokenizer.from_directory("tokenizers/stories")
        >>> encoder = IncrementalEncoder(tokenizer)
        >>> ids = encoder.feed("Once up") + encoder.feed("on a time") + encoder.finish()
        >>> ids == tokenizer.encode("Once upon a time")
        True
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
        super().__init__(tokenizer.encoder, errors, allowed_special, disallowed_special)
