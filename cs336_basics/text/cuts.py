"""Divide plain text at safe cuts: offsets where a cut does not change the pre-tokens.

Where a cut is safe depends on the split pattern and the special tokens, so the caller passes a
finder of safe cuts. `splitting/safe_cuts.py` explains which cuts are safe.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import IO, Protocol

from cs336_basics.text.storage import (
    MAX_PIECE_BYTES,
    became_shorter,
    piece_too_long,
)

_WINDOW = 1 << 12
_NEAR_END = 1 << 12
"""Number of bytes at the end of a block that nearly always contain a safe cut."""


class Cuts(Protocol):
    """Finder of safe cuts in bytes."""

    @property
    def margin(self) -> int:
        """Number of bytes needed on each side of an offset to decide whether it is a safe cut."""

    @property
    def may_exist(self) -> bool:
        """Whether there may be safe cuts in any text."""

    def first(self, data: bytes, start: int, stop: int) -> int | None:
        """Return the first cut in [start, stop], or None.

        `data` must include `margin` bytes before `start` and after `stop`, or reach the ends of the
        text.
        """

    def last(self, data: bytes, start: int) -> int | None:
        """Return the last cut at or after `start` that is safe no matter what follows, or None."""


def next_cut(file: IO[bytes], target: int, cuts: Cuts, max_bytes: int = MAX_PIECE_BYTES) -> int:
    """Return the offset of the first safe cut at or after `target` in an open file.

    If there is none, return the size of the file. The result depends only on the file and `target`,
    so independent processes agree on where one chunk ends and the next one starts.

    Raises:
        ValueError: If the file was truncated, or has no safe cut within `max_bytes`.
    """
    size = file.seek(0, os.SEEK_END)
    if target >= size or not cuts.may_exist:
        return size
    name = getattr(file, "name", "the file")
    searched, window = target, _WINDOW
    while True:
        origin = max(0, searched - cuts.margin)
        file.seek(origin)
        wanted = searched - origin + window + cuts.margin
        data = file.read(wanted)
        known = origin + len(data)
        if len(data) < wanted and known < size:
            raise became_shorter(name, file.seek(0, os.SEEK_END), size)
        stop = size if known >= size else known - cuts.margin
        cut = cuts.first(data, searched - origin, stop - origin)
        if cut is not None:
            return origin + cut
        if stop == size:
            return size
        if stop - target > max_bytes:
            raise piece_too_long(f"{name}, the text at byte {target:,}", max_bytes)
        searched, window = max(searched, stop), window * 2


def blocks_at_cuts(
    file: IO[bytes], path: str, start: int, end: int, cuts: Cuts, block_size: int, max_bytes: int
) -> Iterator[bytes]:
    """Yield the bytes of a local file between two safe cuts, in blocks that end at safe cuts.

    Unlike `safe_blocks`, this function copies no block, because it finds the cut before it reads
    the block.

    Raises:
        ValueError: If the file was truncated, or has no safe cut within `max_bytes` after a block.
    """
    while start < end:
        stop = end
        if block_size < end - start:
            stop = min(end, next_cut(file, start + block_size, cuts, max_bytes))
        if stop <= start:  # the size of the file
            raise became_shorter(path, stop, end)
        if stop - start > block_size + max_bytes:
            raise piece_too_long(f"{path}, the text at byte {start:,}", max_bytes)
        file.seek(start)
        block = file.read(stop - start)
        if len(block) < stop - start:
            raise became_shorter(path, start + len(block), end)
        yield block
        start = stop


def safe_blocks(
    blocks: Iterable[bytes],
    cuts: Cuts,
    offset: int = 0,
    path: str = "the text",
    max_bytes: int = MAX_PIECE_BYTES,
) -> Iterator[bytes]:
    """Regroup the blocks of a text so that they start and end at safe cuts.

    `path` and `offset` are the file and the text's position in it, for messages.

    Raises:
        ValueError: If there is no safe cut within `max_bytes`.
    """
    buffer = SafeCutBuffer(cuts)
    for block in blocks:
        if independent := buffer.add(block):
            offset += len(independent)
            yield independent
        if buffer.num_waiting > max_bytes:
            raise piece_too_long(f"{path}, the text at byte {offset:,}", max_bytes)
    if rest := buffer.rest():
        yield rest


class SafeCutBuffer:
    """Buffers the end of a stream, which cannot be split until more text arrives.

    Args:
        cuts: Finder of safe cuts.
    """

    def __init__(self, cuts: Cuts) -> None:
        self._cuts = cuts
        self._waiting = bytearray()
        self._searched = 0  # there is no safe cut in waiting[:searched]

    def add(self, data: bytes) -> bytes:
        """Add bytes and return the part that can now be split, which may be empty."""
        waiting, margin = self._waiting, self._cuts.margin
        waiting += data
        if len(waiting) - self._searched < margin:
            return b""
        # Search only the new bytes. Otherwise, text without a cut would take quadratic time.
        near_end = max(self._searched, len(waiting) - _NEAR_END)
        cut = self._last_cut(near_end)
        if cut is None and near_end > self._searched:
            cut = self._last_cut(self._searched)
        independent = b""
        if cut is not None:
            with memoryview(waiting) as view:  # slicing a bytearray would copy the bytes once more
                independent = bytes(view[:cut])
            del waiting[:cut]
        self._searched = max(0, len(waiting) - margin)
        return independent

    def _last_cut(self, start: int) -> int | None:
        origin = max(0, start - self._cuts.margin)
        with memoryview(self._waiting) as view:
            cut = self._cuts.last(bytes(view[origin:]), start - origin)
        return None if cut is None else origin + cut

    @property
    def num_waiting(self) -> int:
        """Number of bytes in the buffer."""
        return len(self._waiting)

    def rest(self) -> bytes:
        """Return the remaining bytes. Call this method at the end of the text."""
        return bytes(self._waiting)
