"""Token ids: array dtypes, batches of encoded texts, and the sequences that `decode` accepts."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.lazy import np, npt
from cs336_basics._support.messages import short_repr

TokenArray: TypeAlias = "npt.NDArray[np.unsignedinteger[Any]]"
"""Token ids of shape (num_tokens,), dtype uint16 or uint32."""


class EncodedBatch(NamedTuple):
    """The ids of several texts, as a pair of arrays.

    Attributes:
        ids: Ids of all texts, shape (num_tokens,).
        offsets: Start of each text in `ids`, then the number of ids; shape (num_texts + 1,), int64.
            The ids of text i are `ids[offsets[i]:offsets[i + 1]]`.
    """

    ids: TokenArray
    offsets: npt.NDArray[np.int64]

    def arrays(self) -> list[TokenArray]:
        """Return a view of the ids of each text."""
        return [self.ids[start:end] for start, end in pairwise(self.offsets.tolist())]


def token_dtype(vocab_size: int) -> np.dtype[Any]:
    """Return the dtype of ids: uint16 if all ids are below 65,536, else uint32; little-endian."""
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")


def sequences_of(batch: Iterable[Any] | EncodedBatch) -> Iterable[Any]:
    """Return the sequences in an EncodedBatch, or any other argument unchanged."""
    return batch.arrays() if isinstance(batch, EncodedBatch) else batch


def shortened(ids: Any, max_length: int, side: str) -> Any:
    """Return at most `max_length` ids of a sequence, which loses ids on its `side`.

    Args:
        ids: A list, a tuple or an array. Of an array, a view is returned.
        max_length: Maximum number of ids.
        side: "right" keeps the start, "left" keeps the end.
    """
    if len(ids) <= max_length:
        return ids
    return ids[:max_length] if side == "right" else ids[len(ids) - max_length :]


def is_plain_array(ids: Any) -> bool:
    """Return whether `ids` is a plain array and not a subclass such as a masked array."""
    return type(ids) in (np.ndarray, np.memmap)


def plain_ids(ids: Any) -> Iterator[int]:
    """Yield ids as plain ints.

    Raises:
        TypeError: If `ids` is not an iterable, or an item is a bool or not an integer.
        ValueError: If an array or tensor is not one-dimensional.
    """
    if isinstance(ids, (str, bytes, bytearray)) or not isinstance(ids, Iterable):
        raise InputTypeError(f"must be an iterable of ints, got {short_repr(ids)}", argument="ids")
    array: Any = ids
    if getattr(array, "ndim", 1) != 1:  # a tensor row with a single id would convert to an int
        raise InputError(f"must be one-dimensional, got shape {tuple(array.shape)}", argument="ids")
    if str(getattr(array, "dtype", "")) == "torch.bool":  # its items would convert to ints
        raise InputTypeError("must be integers, got torch.bool", argument="ids")
    if isinstance(ids, np.ndarray):
        if ids.dtype.kind not in "iu" and ids.size:
            raise InputTypeError(f"must be integers, got {ids.dtype}", argument="ids")
        ids = ids.tolist()
    for token_id in ids:
        if type(token_id) is int:
            yield token_id
        elif isinstance(token_id, (bool, np.bool_)):
            raise InputTypeError(f"must be integers, got {token_id!r}", argument="ids")
        else:
            try:
                yield operator.index(token_id)
            except TypeError:
                raise InputTypeError(
                    f"must be integers, got {short_repr(token_id)} ({type(token_id).__name__})",
                    argument="ids",
                ) from None
