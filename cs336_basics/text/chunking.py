"""Divide files and streams at safe cuts, which are described in `safe_cuts.py`.

Splitting the chunks separately gives the same pre-tokens as splitting the whole text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import IO

from cs336_basics.splitting.safe_cuts import SafeCutBuffer, SafeCuts
from cs336_basics.text.storage import (
    MAX_PIECE_BYTES,
    became_shorter,
    piece_too_long,
)

_WINDOW = 1 << 16


def next_cut(file: IO[bytes], target: int, cuts: SafeCuts, max_bytes: int = MAX_PIECE_BYTES) -> int:
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


def safe_blocks(
    blocks: Iterable[bytes],
    cuts: SafeCuts,
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
