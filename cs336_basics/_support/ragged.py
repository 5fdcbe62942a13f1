"""Arrays of several items of different lengths, one after the other, with the starts of the items.

Lengths are int64. NumPy repeats only by its own integers, which have 32 bits on 32-bit CPUs.
"""

from __future__ import annotations

from typing import Any

from cs336_basics._support.lazy import np, npt


def offsets_of(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the start of each item, followed by the total length; shape (n + 1,)."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def repeated(values: npt.NDArray[Any], lengths: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Return each item's value once for each of its elements; shape (total length,)."""
    return np.repeat(values, lengths.astype(np.intp))


def items_at(
    data: npt.NDArray[Any], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> npt.NDArray[Any]:
    """Return `data[starts[i] : starts[i] + lengths[i]]` for all i, concatenated."""
    offsets = offsets_of(lengths)
    taken: npt.NDArray[Any] = data[
        np.arange(offsets[-1]) + repeated(starts - offsets[:-1], lengths)
    ]
    return taken
