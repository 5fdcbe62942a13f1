"""Token ids: the dtype of their arrays, batches of them, and the sequences `decode` accepts."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cs336_basics._messages import short_repr

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
    """Return sequences of ids: those of an EncodedBatch, or the argument itself."""
    return batch.arrays() if isinstance(batch, EncodedBatch) else batch


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
