"""StreamingDecoder: decode ids one at a time."""

from __future__ import annotations

import codecs
from typing import SupportsIndex

from cs336_basics.tokenizer import usual_calls
from cs336_basics.tokenizer.decoding import check_decode_errors, not_utf8
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer


class StreamingDecoder:
    """Decodes ids one at a time and returns only complete characters.

    A character may consist of bytes from several tokens, so an incomplete character is held back
    until the next id. The concatenated texts equal the result of `Tokenizer.decode` for all ids.

    Args:
        tokenizer: Tokenizer that decodes the ids.
        errors, skip_special_tokens: See `Tokenizer.decode`.

    Raises:
        TypeError: If `tokenizer` is not a Tokenizer.
        ValueError: If `errors` is unknown.

    Example:
        >>> from cs336_basics import Tokenizer
        >>> from cs336_basics.tokenizer import StreamingDecoder
        >>> tokenizer = Tokenizer({i: bytes([i]) for i in range(256)}, [])
        >>> decoder = StreamingDecoder(tokenizer)
        >>> [decoder.push(token_id) for token_id in tokenizer.encode("aé")] + [decoder.finish()]
        ['a', '', 'é', '']
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        errors: str | None = None,
        skip_special_tokens: bool = False,
    ) -> None:
        check_is_tokenizer(tokenizer)
        check_decode_errors(errors)
        self._tokenizer = tokenizer
        self._errors = errors
        self._skip_special_tokens = skip_special_tokens
        self._waiting = b""  # an incomplete character
        self._num_bytes = 0  # number of bytes before `_waiting`; counted for `errors="strict"`
        is_usual = errors is None and not skip_special_tokens
        is_usual &= type(tokenizer).decode_bytes is Tokenizer.decode_bytes
        self._usual = tokenizer if is_usual else None  # for the compiled calls

    @usual_calls.stream_push
    def push(self, token_id: SupportsIndex) -> str:
        """Add an id and return the characters that it completes: often a word, sometimes nothing.

        Args:
            token_id: The next id.

        Raises:
            TypeError, ValueError: See `Tokenizer.decode`; the decoder keeps its state.
        """
        data = self._waiting + self._tokenizer.decode_bytes(
            [token_id], self._errors, skip_special_tokens=self._skip_special_tokens
        )
        try:
            text, num_decoded = codecs.utf_8_decode(data, self._errors or "replace", False)
        except UnicodeDecodeError as error:
            raise not_utf8(error, self._num_bytes) from None
        self._waiting = data[num_decoded:]
        self._num_bytes += num_decoded
        return text

    def finish(self) -> str:
        """Return the remaining text and reset the decoder.

        An incomplete character becomes U+FFFD, or is left out with `errors="ignore"`.

        Raises:
            ValueError: If a character is incomplete and `errors` is `"strict"`.
        """
        waiting, start = self._waiting, self._num_bytes
        self._waiting, self._num_bytes = b"", 0
        try:
            return codecs.utf_8_decode(waiting, self._errors or "replace", True)[0]
        except UnicodeDecodeError as error:
            raise not_utf8(error, start) from None
