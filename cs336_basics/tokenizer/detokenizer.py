"""Detokenizer: the half of a tokenizer that starts from ids and tokens, not from text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex

from cs336_basics._messages import short_repr
from cs336_basics.tokenizer.encoders import Encoder
from cs336_basics.tokenizer.text_input import check_is_iterable
from cs336_basics.tokenizer.vocabulary import Vocabulary


class Detokenizer:
    """What a `Tokenizer` does with ids and tokens. The attributes are those of `Tokenizer`."""

    vocab: dict[int, bytes]
    special_tokens: list[str]
    encoder: Encoder
    _vocabulary: Vocabulary

    # ----------------------------------------------------------------- tokens and their ids

    @property
    def vocab_size(self) -> int:
        """The greatest id plus one: the number of rows that a model's embedding needs."""
        return self._vocabulary.size

    def special_token_id(self, token: str) -> int:
        """Return the id of a special token.

        Raises:
            ValueError: it is not one of this tokenizer's special tokens.
        """
        if not isinstance(token, str) or token not in self._vocabulary.special_ids:
            raise ValueError(
                f"{short_repr(token)} is not a special token: use one of "
                f"{short_repr(self.special_tokens)}, or make the tokenizer with it"
            )
        return self._vocabulary.special_ids[token]

    # ----------------------------------------------------------------- ids to text

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """Return the text of ids; bytes that are not UTF-8 become U+FFFD.

        Args:
            ids: ints, in any iterable: a list, a NumPy array, a generator.

        Raises:
            TypeError: an id is not an integer.
            ValueError: an id that is not in the vocabulary; names it.
        """
        return self.encoder.decode(ids)

    def decode_bytes(self, ids: Iterable[SupportsIndex]) -> bytes:
        """Return the bytes of ids, which may end within a character; raises as `decode`."""
        return self.encoder.decode_bytes(ids)

    def decode_batch(self, batch: Iterable[Iterable[SupportsIndex]]) -> list[str]:
        """Return the text of each of several sequences of ids.

        Raises:
            TypeError, ValueError: as `decode`; the message begins with the index of the sequence.
        """
        check_is_iterable("batch", batch, "sequences of ids")
        texts = []
        for index, ids in enumerate(batch):
            try:
                texts.append(self.decode(ids))
            except (TypeError, ValueError) as error:
                raise type(error)(f"sequence {index:,}: {error}") from None
        return texts
