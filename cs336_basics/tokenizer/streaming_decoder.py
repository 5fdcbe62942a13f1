"""StreamingDecoder: ids to text, one id at a time."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, SupportsIndex

if TYPE_CHECKING:
    from cs336_basics.tokenizer.tokenizer import Tokenizer


class StreamingDecoder:
    """Decodes ids one at a time and returns whole characters only.

    A character may need the bytes of several tokens; an incomplete one waits for the next id. All
    returned texts, joined, are what `Tokenizer.decode` makes of all ids.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_id: SupportsIndex) -> str:
        """Return the characters that this id completes: often one word, sometimes none.

        Raises:
            TypeError, ValueError: as `Tokenizer.decode`; the decoder keeps its state.
        """
        return self._decoder.decode(self._tokenizer.decode_bytes([token_id]))

    def finish(self) -> str:
        """Return the rest, an incomplete character as U+FFFD; the decoder can be used again."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest
