"""Detokenizer: the half of a tokenizer that starts from ids and tokens, not from text."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from cs336_basics._support.messages import short_repr
from cs336_basics.tokenizer import decode_errors, padding
from cs336_basics.tokenizer.encoders.encoder import Encoder
from cs336_basics.tokenizer.ids import EncodedBatch, sequences_of
from cs336_basics.tokenizer.padding import PaddedBatch
from cs336_basics.tokenizer.text_input import check_is_iterable
from cs336_basics.tokenizer.vocabulary import Vocabulary


class Detokenizer:
    """What a `Tokenizer` does with ids and tokens. The attributes are those of `Tokenizer`."""

    vocab: dict[int, bytes]
    special_tokens: list[str]
    encoder: Encoder
    _vocabulary: Vocabulary

    # ----------------------------------------------------------------- tokens and their ids

    def __len__(self) -> int:
        """Return the number of tokens, special tokens included; see `vocab_size`."""
        return len(self.vocab)

    @property
    def vocab_size(self) -> int:
        """The greatest id plus one: the number of rows that a model's embedding needs.

        It exceeds `len(tokenizer)` where ids have gaps.
        """
        return self._vocabulary.size

    def token_to_id(self, token: bytes | str) -> int | None:
        """Return the id of a token, None if the vocabulary lacks it.

        Args:
            token: bytes, or a str, which stands for its UTF-8: `" the"`, not `"Ġthe"`.

        Raises:
            TypeError: neither bytes nor str.
            ValueError: a str with a lone surrogate, which has no UTF-8.
        """
        if isinstance(token, str):
            try:
                token = token.encode()
            except UnicodeEncodeError:
                raise ValueError(f"token is {short_repr(token)}: it has no UTF-8") from None
        elif not isinstance(token, bytes):
            raise TypeError(f"token is {short_repr(token)}: it must be bytes or a str")
        return self._vocabulary.token_ids.get(token)

    def id_to_token(self, token_id: SupportsIndex) -> bytes | None:
        """Return the bytes of a token, None if no token has this id.

        A token need not be text: it may end within a character. `decode([token_id])` is text.

        Raises:
            TypeError: it is not an integer.
        """
        if isinstance(token_id, (bool, np.bool_)):
            raise TypeError(f"token_id is {token_id!r}, a bool, not an integer")
        try:
            return self.vocab.get(operator.index(token_id))
        except TypeError:
            raise TypeError(f"token_id is {short_repr(token_id)}, not an integer") from None

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

    def decode(self, ids: Iterable[SupportsIndex], errors: str | None = None) -> str:
        """Return the text of ids.

        Args:
            ids: ints, in any iterable: a list, a NumPy array, a generator.
            errors: how to treat ids that are not in the vocabulary, and bytes that are not UTF-8:
                `"strict"` refuses both, `"replace"` reads each as U+FFFD, `"ignore"` leaves them
                out. None refuses unknown ids, and reads other bytes as U+FFFD: a sequence that was
                cut within a character is common, an unknown id is a mistake.

        Raises:
            TypeError: an id is not an integer.
            ValueError: an id that is not in the vocabulary, or bytes that are not UTF-8, if they
                are refused; names it. `errors` is unknown.
        """
        if errors is None:
            return self.encoder.decode(ids)
        return decode_errors.decode(self.encoder, ids, errors)

    def decode_bytes(self, ids: Iterable[SupportsIndex], errors: str | None = None) -> bytes:
        """Return the bytes of ids, which may end within a character.

        Args:
            ids: as `decode`.
            errors: how to treat ids that are not in the vocabulary: `"strict"` or None refuses
                them, `"replace"` reads each as the UTF-8 of U+FFFD, `"ignore"` leaves them out.

        Raises:
            TypeError, ValueError: as `decode`.
        """
        if errors is None:
            return self.encoder.decode_bytes(ids)
        return decode_errors.decode_bytes(self.encoder, ids, errors)

    def decode_batch(
        self, batch: Iterable[Iterable[SupportsIndex]] | EncodedBatch, errors: str | None = None
    ) -> list[str]:
        """Return the text of each of several sequences of ids.

        Args:
            batch: the sequences; or what `encode_batch_array` returns.
            errors: as `decode`.

        Raises:
            TypeError, ValueError: as `decode`; the message begins with the index of the sequence.
        """
        check_is_iterable("batch", batch, "sequences of ids")
        decode_errors.check_decode_errors(errors)
        texts = []
        for index, ids in enumerate(sequences_of(batch)):
            try:
                texts.append(self.decode(ids, errors=errors))
            except (TypeError, ValueError) as error:
                raise type(error)(f"sequence {index:,}: {error}") from None
        return texts

    # ----------------------------------------------------------------- ids to arrays

    def truncate(
        self,
        sequences: Iterable[Iterable[SupportsIndex]] | EncodedBatch,
        max_length: int,
        *,
        side: str = "right",
    ) -> list[Any]:
        """Return each sequence of ids without those that exceed `max_length`; see `padding`."""
        return padding.truncate(sequences, max_length, side=side)

    def pad(
        self,
        sequences: Iterable[Iterable[SupportsIndex]] | EncodedBatch,
        *,
        pad_id: int | str = 0,
        side: str = "right",
        max_length: int | None = None,
        truncate_side: str = "right",
        multiple_of: int = 1,
        dtype: npt.DTypeLike = np.int64,
    ) -> PaddedBatch:
        """Return sequences of ids as one array of shape (batch, longest), and its mask.

        Args:
            pad_id: as `padding.pad`, or a special token of this tokenizer.
            sequences, side, max_length, truncate_side, multiple_of, dtype: as `padding.pad`.

        Raises:
            TypeError, ValueError: as `padding.pad`, or a str that is not a special token.
        """
        if isinstance(pad_id, str):
            pad_id = self.special_token_id(pad_id)
        return padding.pad(
            sequences,
            pad_id=pad_id,
            side=side,
            max_length=max_length,
            truncate_side=truncate_side,
            multiple_of=multiple_of,
            dtype=dtype,
        )
