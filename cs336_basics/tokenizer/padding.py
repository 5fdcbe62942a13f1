"""Sequences of ids of unequal lengths as one array: truncated, padded, with a mask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
import numpy.typing as npt

from cs336_basics._arguments import checked_integer
from cs336_basics._messages import short_repr
from cs336_basics.tokenizer.ids import plain_ids
from cs336_basics.tokenizer.text_input import check_is_iterable

SIDES = ("right", "left")

_DTYPES = (np.dtype(np.int64), np.dtype(np.int32))

MAX_ELEMENTS = 1 << 30
"""The largest array that `pad` makes, in ids: a single long sequence among many short ones would
otherwise exhaust the memory."""


class PaddedBatch(NamedTuple):
    """Sequences of ids as one array.

    Attributes:
        ids: shape (batch, longest), int64 or int32.
        mask: shape (batch, longest), bool: True for an id of a sequence, False for padding.
    """

    ids: npt.NDArray[np.integer[Any]]
    mask: npt.NDArray[np.bool_]


def truncate(
    sequences: Iterable[Iterable[SupportsIndex]], max_length: int, *, side: str = "right"
) -> list[Any]:
    """Return each sequence without the ids that exceed `max_length`.

    Args:
        sequences: lists or arrays of ids.
        max_length: the most ids of a sequence, at least 0.
        side: where ids are removed: `"right"` keeps the beginning, `"left"` the end.

    Returns:
        The sequences: a slice of each that is too long (of an array: a view), the others as given.

    Raises:
        TypeError: `sequences` is not several sequences.
        ValueError: another `side`; a negative `max_length`.
    """
    max_length = checked_integer("max_length", max_length, 0)
    _check_side("side", side)
    kept: list[Any] = []
    for index, sequence in enumerate(_checked(sequences)):
        ids = _sliceable(sequence, index)
        if len(ids) > max_length:
            ids = ids[:max_length] if side == "right" else ids[len(ids) - max_length :]
        kept.append(ids)
    return kept


def pad(
    sequences: Iterable[Iterable[SupportsIndex]],
    *,
    pad_id: int = 0,
    side: str = "right",
    max_length: int | None = None,
    truncate_side: str = "right",
    multiple_of: int = 1,
    dtype: npt.DTypeLike = np.int64,
) -> PaddedBatch:
    """Return sequences of ids as one array, and the mask that tells ids from padding.

    Args:
        sequences: lists or arrays of ids, of any lengths.
        pad_id: fills the rest of the array. Any number will do, since the mask marks it: the id
            of a special token, or -100 for targets that PyTorch's cross-entropy ignores.
        side: where the padding is: `"right"`, or `"left"` for generation, where the last column
            must hold the newest ids.
        max_length: the most ids of a sequence; longer ones are truncated. None: no limit.
        truncate_side: where ids are removed, as the `side` of `truncate`.
        multiple_of: the width of the array is the longest length, rounded up to a multiple of this.
            A multiple that equals `max_length` makes all arrays equally wide.
        dtype: of the ids: int64, which PyTorch's embeddings take, or int32.

    Returns:
        ids of shape (batch, longest) and the mask, bool of the same shape.

    Raises:
        TypeError: `sequences` is not several sequences, or an id is not an integer; the message
            begins with the index of the sequence.
        ValueError: an array with more than one dimension; an id, or `pad_id`, that `dtype` cannot
            hold; another `side` or `dtype`; a `max_length` that is not a multiple of
            `multiple_of`; an array of more than MAX_ELEMENTS ids.
    """
    _check_side("side", side)
    _check_side("truncate_side", truncate_side)
    multiple_of = checked_integer("multiple_of", multiple_of, 1)
    limits = np.iinfo(_checked_dtype(dtype))
    pad_id = checked_integer("pad_id", pad_id, limits.min, limits.max, note=f" ({limits.dtype})")
    if max_length is None:
        rows = [_sliceable(sequence, index) for index, sequence in enumerate(_checked(sequences))]
    else:
        max_length = checked_integer("max_length", max_length, 1)
        if max_length % multiple_of:
            raise ValueError(
                f"max_length is {max_length}: it must be a multiple of multiple_of, {multiple_of}"
            )
        rows = truncate(sequences, max_length, side=truncate_side)
    lengths = [len(row) for row in rows]
    width = -(-max(lengths, default=0) // multiple_of) * multiple_of
    if len(rows) * width > MAX_ELEMENTS:
        raise ValueError(
            f"{len(rows):,} sequences, the longest of {max(lengths):,} ids, make an array of "
            f"{len(rows) * width:,} ids: pass a max_length, or sort the sequences by length and "
            "pad smaller batches"
        )
    ids = np.full((len(rows), width), pad_id, limits.dtype)
    mask = np.zeros((len(rows), width), np.bool_)
    for index, row in enumerate(rows):
        columns = slice(0, len(row)) if side == "right" else slice(width - len(row), width)
        ids[index, columns] = _checked_ids(row, index, limits)
        mask[index, columns] = True
    return PaddedBatch(ids, mask)


def _check_side(name: str, side: str) -> None:
    if side not in SIDES:
        raise ValueError(f"{name} is {short_repr(side)}: it must be one of {', '.join(SIDES)}")


def _checked_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found not in _DTYPES:
        raise ValueError(f"dtype is {short_repr(dtype)}: it must be int64 or int32")
    return found


def _checked(sequences: object) -> Iterable[Iterable[SupportsIndex]]:
    check_is_iterable("sequences", sequences, "sequences of ids")
    return sequences  # type: ignore[return-value]


def _sliceable(sequence: Any, index: int) -> Any:
    """Return a sequence of ids as something with a length that can be sliced."""
    if isinstance(sequence, (list, tuple, np.ndarray)):
        return sequence
    try:
        return list(plain_ids(sequence))
    except (TypeError, ValueError) as error:
        raise type(error)(f"sequence {index:,}: {error}") from None


def _checked_ids(row: Any, index: int, limits: np.iinfo[Any]) -> Any:
    """Return the ids of a sequence, all of which fit into the dtype of `limits`."""
    values: Any = row
    if isinstance(row, np.ndarray) and row.ndim == 1 and row.dtype.kind in "iu":
        outside = values[(values < limits.min) | (values > limits.max)]
    else:
        try:
            values = list(plain_ids(row))
        except (TypeError, ValueError) as error:
            raise type(error)(f"sequence {index:,}: {error}") from None
        outside = [token_id for token_id in values if not limits.min <= token_id <= limits.max]
    if len(outside):
        raise ValueError(
            f"sequence {index:,} holds id {short_repr(int(outside[0]))}, which {limits.dtype} "
            "cannot hold: use dtype='int64', or smaller ids"
        )
    return values
