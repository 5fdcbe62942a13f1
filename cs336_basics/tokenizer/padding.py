"""Sequences of ids of unequal lengths as one array: truncated, padded, with a mask."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
import numpy.typing as npt

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.messages import short_repr
from cs336_basics.tokenizer.encoders.encoder import offsets_of
from cs336_basics.tokenizer.ids import (
    EncodedBatch,
    is_plain_array,
    plain_ids,
    sequences_of,
)
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
    sequences: Iterable[Iterable[SupportsIndex]] | EncodedBatch,
    max_length: int,
    *,
    side: str = "right",
) -> list[Any]:
    """Return each sequence without the ids that exceed `max_length`.

    Args:
        sequences: lists or arrays of ids, or what `encode_batch_array` returns.
        max_length: the most ids of a sequence, at least 0.
        side: where ids are removed: `"right"` keeps the beginning, `"left"` the end.

    Returns:
        The sequences: a slice of each that is too long (of an array: a view), the others as given.

    Raises:
        TypeError: `sequences` is not several sequences.
        ValueError: `side` is unknown; a negative `max_length`; an array that does not have one
            dimension, or offsets that do not fit their ids.
    """
    max_length = checked_integer("max_length", max_length, 0)
    _check_side("side", side)
    kept: list[Any] = []
    check_is_iterable("sequences", sequences, "sequences of ids")
    for index, sequence in enumerate(sequences_of(sequences)):
        ids = _sliceable(sequence, index)
        if len(ids) > max_length:
            ids = ids[:max_length] if side == "right" else ids[len(ids) - max_length :]
        kept.append(ids)
    return kept


def pad(
    sequences: Iterable[Iterable[SupportsIndex]] | EncodedBatch,
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
        sequences: lists or arrays of ids, of any lengths; or, many times as fast, what
            `encode_batch_array` returns.
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
        ValueError: an array with more than one dimension; offsets that do not fit their ids; an id,
            or `pad_id`, that `dtype` cannot hold; an unknown `side` or `dtype`; a `max_length` that
            is not a multiple of `multiple_of`; an array of more than MAX_ELEMENTS ids.
    """
    _check_side("side", side)
    _check_side("truncate_side", truncate_side)
    multiple_of = checked_integer("multiple_of", multiple_of, 1)
    limits = np.iinfo(_checked_dtype(dtype))
    pad_id = checked_integer("pad_id", pad_id, limits.min, limits.max, note=f" ({limits.dtype})")
    if max_length is not None:
        max_length = checked_integer("max_length", max_length, 1)
        if max_length % multiple_of:
            raise ValueError(
                f"max_length is {max_length}: it must be a multiple of multiple_of, {multiple_of}"
            )
    if isinstance(sequences, EncodedBatch):
        batch = _truncated_batch(sequences, max_length, truncate_side)
        mask = _mask(np.diff(batch.offsets), multiple_of, side)
        padded = np.full(mask.shape, pad_id, limits.dtype)
        _check_batch_ids(batch, limits)
        padded[mask] = batch.ids
        return PaddedBatch(padded, mask)
    rows = truncate(sequences, max_length or sys.maxsize, side=truncate_side)
    mask = _mask(np.array([len(row) for row in rows], np.int64), multiple_of, side)
    padded = np.full(mask.shape, pad_id, limits.dtype)
    for index, row in enumerate(rows):
        start = 0 if side == "right" else mask.shape[1] - len(row)
        padded[index, start : start + len(row)] = _checked_ids(row, index, limits)
    return PaddedBatch(padded, mask)


def model_inputs(
    lists: list[list[int]],
    padding: bool | str,
    truncation: bool,
    max_length: int | None,
    pad_id: int,
) -> tuple[list[list[int]], list[list[int]]]:
    """Return lists of ids, truncated and padded, and their masks of 1 and 0.

    Args and errors are those of `Tokenizer.__call__`.
    """
    if padding not in (False, True, "longest", "max_length"):
        raise ValueError(
            f"padding is {short_repr(padding)}: it must be True, False, 'longest' or 'max_length'"
        )
    if not isinstance(truncation, bool):
        raise ValueError(f"truncation is {short_repr(truncation)}: it must be True or False")
    needs_length = truncation or padding == "max_length"
    if needs_length != (max_length is not None):
        raise ValueError(
            f"max_length is {short_repr(max_length)}: give it with truncation=True or "
            "padding='max_length', and only then"
        )
    if max_length is not None:
        max_length = checked_integer("max_length", max_length, 1)
        for index, ids in enumerate(lists):
            if len(ids) > max_length and not truncation:
                raise ValueError(
                    f"text {index:,} has {len(ids):,} ids, and max_length is {max_length:,}: pass "
                    "truncation=True"
                )
        lists = truncate(lists, max_length)
    if not padding:
        return lists, [[1] * len(ids) for ids in lists]
    number = len(lists)
    if padding == "max_length":
        lists = [*lists, [pad_id]]  # a row that is not empty, for the width
    padded = pad(lists, pad_id=pad_id, multiple_of=(padding == "max_length" and max_length) or 1)
    return padded.ids[:number].tolist(), padded.mask[:number].astype(np.int8).tolist()


def _mask(lengths: npt.NDArray[np.int64], multiple_of: int, side: str) -> npt.NDArray[np.bool_]:
    """Return the mask of sequences of these lengths; see `pad`."""
    width = -(-int(lengths.max(initial=0)) // multiple_of) * multiple_of
    if len(lengths) * width > MAX_ELEMENTS:
        raise ValueError(
            f"{len(lengths):,} sequences, the longest of {lengths.max():,} ids, make an array of "
            f"{len(lengths) * width:,} ids: pass a max_length, or sort the sequences by length and "
            "pad smaller batches"
        )
    columns, ends = np.arange(width), lengths[:, None]
    mask: npt.NDArray[np.bool_] = columns < ends if side == "right" else columns >= width - ends
    return mask


def _truncated_batch(batch: EncodedBatch, max_length: int | None, side: str) -> EncodedBatch:
    """Return a batch without the ids that exceed `max_length`; see `truncate`."""
    lengths = np.diff(batch.offsets)
    if max_length is None or lengths.max(initial=0) <= max_length:
        return batch
    kept = np.minimum(lengths, max_length)
    starts = batch.offsets[:-1] if side == "right" else batch.offsets[1:] - kept
    offsets = offsets_of(kept)
    index = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], kept)
    return EncodedBatch(batch.ids[index], offsets)


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


def _sliceable(sequence: Any, index: int) -> Any:
    """Return a sequence of ids as something with a length that can be sliced."""
    if isinstance(sequence, (list, tuple)) or (is_plain_array(sequence) and sequence.ndim == 1):
        return sequence
    try:
        return list(plain_ids(sequence))
    except (TypeError, ValueError) as error:
        raise type(error)(f"sequence {index:,}: {error}") from None


def _check_batch_ids(batch: EncodedBatch, limits: np.iinfo[Any]) -> None:
    outside = np.flatnonzero((batch.ids < limits.min) | (batch.ids > limits.max))
    if len(outside):
        index = int(np.searchsorted(batch.offsets, outside[0], side="right")) - 1
        raise _outside(index, int(batch.ids[outside[0]]), limits)


def _checked_ids(row: Any, index: int, limits: np.iinfo[Any]) -> Any:
    """Return the ids of a sequence, all of which fit into the dtype of `limits`."""
    # All at once; one by one for a message, or where ids are integers of another kind.
    if isinstance(row, (list, tuple)) and set(map(type, row)) == {int}:
        low, high = min(row), max(row)
    elif is_plain_array(row) and row.dtype.kind in "iu":
        low, high = (int(row.min()), int(row.max())) if len(row) else (0, 0)
    else:
        try:
            row = list(plain_ids(row))
        except (TypeError, ValueError) as error:
            raise type(error)(f"sequence {index:,}: {error}") from None
        low, high = min(row, default=0), max(row, default=0)
    if limits.min <= low and high <= limits.max:
        return row
    raise _outside(index, low if low < limits.min else high, limits)


def _outside(index: int, token_id: int, limits: np.iinfo[Any]) -> ValueError:
    advice = "" if limits.bits == 64 else "use dtype='int64', or "
    return ValueError(
        f"sequence {index:,} holds id {short_repr(token_id)}, which {limits.dtype} cannot hold: "
        f"{advice}pass smaller ids"
    )
