"""Token ids: the dtype of their arrays, batches of them, and the sequences `decode` accepts."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cs336_basics._support.messages import short_repr

TokenArray = npt.NDArray[np.unsignedinteger[Any]]
"""Token ids of shape (num_tokens,), dtype uint16 or uint32."""


class EncodedBatch(NamedTuple):
    """The ids of several texts in one array.

    Attributes:
        ids: shape (num_tokens,), text by text.
        offsets: shape (num_texts + 1,), int64; text i has ids[offsets[i]:offsets[i + 1]].
    """

    ids: TokenArray
    offsets: npt.NDArray[np.int64]

    def arrays(self) -> list[TokenArray]:
        """Return the ids of each text: views, no copies."""
        return [self.ids[start:end] for start, end in pairwise(self.offsets.tolist())]


def token_dtype(vocab_size: int) -> np.dtype[Any]:
    """Return the smaller of uint16 and uint32 that holds every id; little-endian everywhere.

    Raises:
        ValueError: ids need more than 32 bits.
    """
    if vocab_size <= 1 << 16:
        return np.dtype("<u2")
    if vocab_size <= 1 << 32:
        return np.dtype("<u4")
    raise ValueError(
        f"the greatest id is {vocab_size - 1}: arrays hold ids of at most 32 bits; use smaller ids"
    )


def sequences_of(batch: Iterable[Any] | EncodedBatch) -> Iterable[Any]:
    """Return sequences of ids: those of an EncodedBatch, or the argument itself.

    Raises:
        ValueError: see `checked_batch`.
    """
    return checked_batch(batch).arrays() if isinstance(batch, EncodedBatch) else batch


def checked_batch(batch: EncodedBatch) -> EncodedBatch:
    """Return a batch as arrays.

    Raises:
        ValueError: its ids or offsets are not integers in one dimension, or do not fit.
    """
    ids, offsets = np.asarray(batch.ids), np.asarray(batch.offsets)
    if ids.ndim != 1 or offsets.ndim != 1 or not {ids.dtype.kind, offsets.dtype.kind} <= {*"iu"}:
        raise ValueError(
            f"the batch has ids of shape {ids.shape} and {ids.dtype}, offsets of shape "
            f"{offsets.shape} and {offsets.dtype}: both must be integers in one dimension"
        )
    offsets = offsets.astype(np.int64)
    if not len(offsets) or offsets[0] or offsets[-1] != len(ids) or (np.diff(offsets) < 0).any():
        raise ValueError(
            f"the batch has the offsets {short_repr(offsets.tolist())}: they must ascend from 0 to "
            f"the number of its ids, {len(ids):,}"
        )
    return EncodedBatch(ids, offsets)


def is_plain_array(ids: Any) -> bool:
    """Return whether ids are an array without further meaning, as a mask would be."""
    return type(ids) in (np.ndarray, np.memmap)


def plain_ids(ids: Any) -> Iterator[int]:
    """Yield ids as plain ints.

    Raises:
        TypeError: `ids` is not an iterable, or an item is a bool or not an integer.
        ValueError: an array or tensor that does not have exactly one dimension.
    """
    if isinstance(ids, (str, bytes, bytearray)) or not isinstance(ids, Iterable):
        raise TypeError(f"ids are {short_repr(ids)}: pass a list or another iterable of ints")
    array: Any = ids
    if getattr(array, "ndim", 1) != 1:  # rows of one id in a tensor would pass for ids
        raise ValueError(f"ids have the shape {tuple(array.shape)}: pass one sequence at a time")
    if isinstance(ids, np.ndarray):
        if ids.dtype.kind not in "iu" and ids.size:
            raise TypeError(f"ids are {ids.dtype}, not integers")
        ids = ids.tolist()
    for token_id in ids:
        if type(token_id) is int:
            yield token_id
        elif isinstance(token_id, (bool, np.bool_)):
            raise TypeError(f"id {token_id!r} is a bool, not an integer")
        else:
            try:
                yield operator.index(token_id)
            except TypeError:
                raise TypeError(
                    f"id {short_repr(token_id)} is of type {type(token_id).__name__}, "
                    "not an integer"
                ) from None
