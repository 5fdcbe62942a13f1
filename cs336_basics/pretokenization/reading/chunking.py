"""Divide files and streams at safe cuts, which are described in `safe_cuts.py`.

Splitting the chunks separately gives the same pre-tokens as splitting the whole text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import IO

from cs336_basics.pretokenization.reading.storage import (
    MAX_PIECE_BYTES,
    became_shorter,
    piece_too_long,
)
from cs336_basics.pretokenization.safe_cuts import SafeCutBuffer, SafeCuts

REACH = 4 << 20
"""Maximum number of bytes to search for the end of a special token before cutting inside text."""

_WINDOW = 1 << 16


def next_cut(
    file: IO[bytes],
    target: int,
    cuts: SafeCuts,
    reach: int = REACH,
    max_bytes: int = MAX_PIECE_BYTES,
) -> int:
    """Return the offset of a safe cut at or after `target` in an open file.

    The result is the first offset within `reach` bytes where a special token ends. If there is
    none, the result is the first safe cut of either kind, or the end of the file. It depends only
    on the file and `target`, so independent processes agree on where one chunk ends and the next
    one starts.

    Raises:
        ValueError: If the file was truncated, or has no safe cut within `max_bytes`.
    """
    size = file.seek(0, os.SEEK_END)
    if target >= size or not cuts.may_exist:
        return size
    origin = max(0, target - cuts.margin)
    inside: int | None = None
    searched, window = target, min(_WINDOW, reach)
    while True:
        file.seek(origin)
        wanted = target - origin + window + cuts.margin
        data = file.read(wanted)
        known = origin + len(data)
        if len(data) < wanted and known < size:
            shorter = file.seek(0, os.SEEK_END)
            raise became_shorter(getattr(file, "name", "the file"), shorter, size)
        stop = size if known >= size else known - cuts.margin
        cut = cuts.after_special_token(data, searched - origin, stop - origin)
        if cut is not None and origin + cut <= target + reach:
            return origin + cut
        if inside is None:
            inside = cuts.inside_text(data, searched - origin, stop - origin)
        # Beyond `reach`, take the first cut of either kind, so that a larger target never leads to
        # an earlier cut.
        if cut is not None:
            return origin + (cut if inside is None else min(inside, cut))
        if inside is not None and (window >= reach or stop == size):
            return origin + inside
        if stop == size:
            return size
        if stop - target > max_bytes:
            name = getattr(file, "name", "the file")
            raise piece_too_long(f"{name}, the text at byte {target:,}", max_bytes)
        # There is no cut up to `stop`, so search only the rest of the next window.
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
