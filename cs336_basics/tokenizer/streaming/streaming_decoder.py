"""StreamingDecoder: ids to text, one id at a time."""

from __future__ import annotations

import codecs
from typing import SupportsIndex

from cs336_basics.tokenizer.decoding import check_decode_errors, not_utf8
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer


class StreamingDecoder:
    """Decodes ids one at a time and returns whole characters only.

    A character may need the bytes of several tokens; an incomplete one waits for the next id. All
    returned texts, joined, are what `Tokenizer.decode` makes of all ids.

    Args:
        tokenizer: has the vocabulary.
        errors: as `Tokenizer.decode`.

    Raises:
        TypeError: `tokenizer` is not a Tokenizer.
        ValueError: `errors` is unknown.
    """

    def __init__(self, tokenizer: Tokenizer, *, errors: str | None = None) -> None:
        check_is_tokenizer(tokenizer)
        check_decode_errors(errors)
        self._tokenizer = tokenizer
        self._errors = errors
        self._num_bytes = 0  # of the ids that were pushed
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors=errors or "replace")

    def push(self, token_id: SupportsIndex) -> str:
        """Return the characters that this id completes: often one word, sometimes none.

        Raises:
            TypeError, ValueError: as `Tokenizer.decode`; the decoder keeps its state.
        """
        data = self._tokenizer.decode_bytes([token_id], errors=self._errors)
        try:
            text = self._decoder.decode(data)
        except UnicodeDecodeError as error:
            raise self._explained(error) from None
        self._num_bytes += len(data)
        return text

    def finish(self) -> str:
        """Return the rest; the decoder can be used again.

        Raises:
            ValueError: an incomplete character (`errors="strict"`); else it becomes U+FFFD, or
                nothing (`"ignore"`).
        """
        try:
            return self._decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            raise self._explained(error) from None
        finally:
            self._decoder.reset()
            self._num_bytes = 0

    def _explained(self, error: UnicodeDecodeError) -> ValueError:
        waiting, _ = self._decoder.getstate()  # bytes of an incomplete character
        return not_utf8(error, self._num_bytes - len(waiting))
