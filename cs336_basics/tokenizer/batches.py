"""Check and encode several texts together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from cs336_basics._support.arguments import check_is_iterable
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.ragged import offsets_of
from cs336_basics.execution.workers import resolve_num_workers
from cs336_basics.splitting.splitter import check_is_str
from cs336_basics.tokenizer.encoders.absent_bytes import AbsentByteError
from cs336_basics.tokenizer.encoders.encoder import Encoder
from cs336_basics.tokenizer.encoders.encoding_errors import explained, without_surrogates
from cs336_basics.tokenizer.ids import EncodedBatch
from cs336_basics.tokenizer.special_tokens import special_sets

if TYPE_CHECKING:
    from cs336_basics.tokenizer.dropout import Dropout

_Encoded = TypeVar("_Encoded")

# With fewer bytes per thread, starting a thread would cost more time than it saves.
_BYTES_PER_WORKER = 1 << 18


def encode_texts(
    encoder: Encoder,
    encode: Callable[[list[str], frozenset[str], int], _Encoded],
    texts: Iterable[str],
    num_workers: int | None,
    allowed_special: str | Collection[str] | None,
    disallowed_special: str | Collection[str],
) -> _Encoded:
    """Check texts and encode them with a method of `encoder`, such as `encode_batch`.

    Args:
        encoder: Encoder of the tokenizer.
        encode: Method to call with the texts, the special tokens and the number of threads.
        texts, num_workers, allowed_special, disallowed_special: See `Tokenizer.encode_batch`.

    Raises:
        TypeError, ValueError: See `Tokenizer.encode`; the message starts with the index of the
            first text that cannot be encoded.
    """
    check_is_iterable("texts", texts, "texts")
    if isinstance(texts, Mapping):  # iterating over a batch of Dataset rows gives column names
        raise InputTypeError(
            f"must be a list of texts, such as a column, got {short_repr(texts)}", argument="texts"
        )
    # Iterating over an Arrow array gives scalars of its own.
    texts = texts.to_pylist() if hasattr(texts, "to_pylist") else list(texts)
    sets = special_sets(encoder, allowed_special, disallowed_special)
    special, disallowed = sets
    if disallowed or not set(map(type, texts)) <= {str}:
        for index, text in enumerate(texts):
            try:
                check_is_str(text)
                sets.check(text)
            except InputError as error:
                raise error.at(f"text {index:,}") from None
    num_workers = resolve_num_workers(num_workers)
    if num_workers > 1:
        num_workers = useful_workers(num_workers, sum(map(len, texts)))
    try:
        return encode(texts, special, num_workers)
    except UnicodeEncodeError:
        texts = [_joined(text, index) for index, text in enumerate(texts)]
        return encode_texts(
            encoder, encode, texts, num_workers, allowed_special, disallowed_special
        )
    except AbsentByteError:
        # Threads encode in any order, so find the first text that fails.
        for index, text in enumerate(texts):
            try:
                encoder.encode(text, special)
            except AbsentByteError:
                raise explained(encoder, text, special).at(f"text {index:,}") from None
        raise


def with_dropout(
    encoder: Encoder, dropout: Dropout | None
) -> Callable[[list[str], frozenset[str], int], EncodedBatch] | None:
    """Return the method for `encode_texts` that encodes with dropout, or None without dropout."""
    if dropout is None:
        return None
    # The import takes as long as encoding 200 kB of new text.
    from cs336_basics.tokenizer.dropout import checked_dropout

    found = checked_dropout(dropout)
    if found is None:
        return None

    def encode(texts: list[str], special: frozenset[str], num_workers: int) -> EncodedBatch:
        places = [(found.first_document + index, 0) for index in range(len(texts))]
        ids, lengths = encoder.encode_dropped(texts, special, found, places, num_workers)
        return EncodedBatch(ids, offsets_of(lengths))

    return encode


def _joined(text: str, index: int) -> str:
    """Return a text with surrogate pairs as characters; `index` is for messages."""
    try:
        return text if text.isascii() else without_surrogates(text)
    except InputError as error:
        raise error.at(f"text {index:,}") from None


def useful_workers(num_workers: int | None, num_bytes: int) -> int:
    """Return the number of threads to start for `num_bytes` of text."""
    return max(1, min(resolve_num_workers(num_workers), num_bytes // _BYTES_PER_WORKER))
