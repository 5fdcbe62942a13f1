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


class _Batch(NamedTuple):
    ids: TokenArray
    offsets: npt.NDArray[np.int64]


class EncodedBatch(_Batch):
    """The ids of several texts in one array; a pair.

    Attributes:
        ids: shape (num_tokens,), text by text.
        offsets: shape (num_texts + 1,), int64; text i has ids[offsets[i]:offsets[i + 1]].

    Raises:
        ValueError: ids or offsets are not integers in one dimension, or do not fit.
    """

    __slots__ = ()

    def __new__(cls, ids: npt.ArrayLike, offsets: npt.ArrayLike) -> EncodedBatch:
        """Check the arrays; see the class."""
        ids, offsets = np.asarray(ids), np.asarray(offsets)
        kinds = {ids.dtype.kind, offsets.dtype.kind}
        if ids.ndim != 1 or offsets.ndim != 1 or not kinds <= {*"iu"}:
            raise ValueError(
                f"the batch has ids of shape {ids.shape} and {ids.dtype}, offsets of shape "
                f"{offsets.shape} and {offsets.dtype}: both must be integers in one dimension"
            )
        starts = offsets.astype(np.int64)
        if not len(starts) or starts[0] or starts[-1] != len(ids) or (np.diff(starts) < 0).any():
            raise ValueError(
                f"the batch has the offsets {short_repr(offsets.tolist())}: they must ascend from "
                f"0 to the number of its ids, {len(ids):,}"
            )
        return super().__new__(cls, ids, starts)

    @classmethod
    def _make(cls, iterable: Iterable[Any]) -> EncodedBatch:  # type: ignore[override]
        """Check what `_replace` makes, too."""
        return cls(*iterable)

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
    """Return sequences of ids: those of an EncodedBatch, or the argument itself."""
    return batch.arrays() if isinstance(batch, EncodedBatch) else batch


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
