"""Decode ids to bytes and text. `errors` specifies how to handle unknown ids and invalid UTF-8."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex

from cs336_basics._support.arguments import check_is_iterable
from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.lazy import np, npt
from cs336_basics._support.messages import short_repr
from cs336_basics.tokenizer.encoders.encoder import Encoder, UnknownIdError
from cs336_basics.tokenizer.ids import EncodedBatch, is_plain_array, plain_ids, sequences_of

DECODE_ERRORS = ("strict", "replace", "ignore")
"""Values of `errors`: raise an error, insert U+FFFD, or skip the invalid item. The names come from
`bytes.decode`; here they apply to unknown ids as well."""

_REPLACEMENT = "\ufffd".encode()


def check_decode_errors(errors: str | None) -> None:
    """Raise ValueError unless `errors` is None or one of DECODE_ERRORS."""
    if errors is not None and errors not in DECODE_ERRORS:
        raise InputError(
            f"must be None or one of {', '.join(DECODE_ERRORS)}, got {short_repr(errors)}",
            argument="errors",
        )


def decode_bytes(
    encoder: Encoder,
    ids: Iterable[SupportsIndex],
    errors: str | None,
    skip_special_tokens: bool = False,
) -> bytes:
    """Return the bytes of a sequence of ids; see `Tokenizer.decode_bytes`."""
    check_decode_errors(errors)
    if skip_special_tokens:
        ids = without_special_tokens(encoder, ids)
    if errors is None:
        return encoder.decode_bytes(ids)
    if not isinstance(ids, (list, np.ndarray)):
        ids = list(plain_ids(ids))
    try:
        return encoder.decode_bytes(ids)
    except UnknownIdError:
        if errors == "strict":
            raise
    instead = _REPLACEMENT if errors == "replace" else b""
    tokens = encoder.definition.vocab
    return b"".join(tokens.get(token_id, instead) for token_id in plain_ids(ids))


def without_special_tokens(
    encoder: Encoder, ids: Iterable[SupportsIndex]
) -> list[int] | npt.NDArray[np.integer[Any]]:
    """Return ids without special tokens. Other added tokens stay."""
    special = encoder.definition.ids_of_special
    if is_plain_array(ids) and ids.ndim == 1 and ids.dtype.kind in "iu":  # type: ignore[attr-defined]
        array: npt.NDArray[np.integer[Any]] = ids  # type: ignore[assignment]
        return array[~np.isin(array, [*special])]
    return [token_id for token_id in plain_ids(ids) if token_id not in special]


def decode(
    encoder: Encoder,
    ids: Iterable[SupportsIndex],
    errors: str | None,
    skip_special_tokens: bool = False,
) -> str:
    """Return the text of a sequence of ids; see `Tokenizer.decode`."""
    if skip_special_tokens:
        ids = without_special_tokens(encoder, ids)
    if errors is None:
        return encoder.decode(ids)
    data = decode_bytes(encoder, ids, errors)
    try:
        return data.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise not_utf8(error) from None


def decode_batch(
    encoder: Encoder,
    batch: Iterable[Iterable[SupportsIndex]] | EncodedBatch,
    errors: str | None,
    skip_special_tokens: bool = False,
) -> list[str]:
    """Return the text of each sequence of ids; see `Tokenizer.decode_batch`."""
    check_is_iterable("batch", batch, "sequences of ids")
    check_decode_errors(errors)
    texts = []
    for index, ids in enumerate(sequences_of(batch)):
        try:
            texts.append(decode(encoder, ids, errors, skip_special_tokens))
        except InputError as error:
            raise error.at(f"sequence {index:,}") from None
    return texts


def not_utf8(error: UnicodeDecodeError, start: int = 0) -> InputError:
    """Return an error that names the first invalid byte in decoded bytes and its offset.

    Args:
        error: Error raised by the decoder.
        start: Offset of the decoder's input within the bytes of all ids.
    """
    return InputError(
        f"the bytes of the ids are not UTF-8: {error.object[error.start]:#04x} at offset "
        f"{start + error.start:,} ({error.reason})",
        remedy=("use ", Argument("errors", "replace"), " or decode_bytes"),
    )
