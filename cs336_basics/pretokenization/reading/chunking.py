"""Divides files and streams of text at safe cuts; see `safe_cuts.py` for where those are.

The chunks can be split into pre-tokens one by one, with the same result as the whole text.
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
"""Bytes after which a cut inside the text is taken, if no special token has ended before."""

_WINDOW = 1 << 16


def next_cut(
    file: IO[bytes],
    target: int,
    cuts: SafeCuts,
    reach: int = REACH,
    max_bytes: int = MAX_PIECE_BYTES,
) -> int:
    """Return the first offset at or after `target` of an open file where it can be cut.

    That is the first end of a special token within `reach` bytes; otherwise the first cut of
    either kind, at a special token or inside the text; or the end of the file. It depends on the
    file and on `target` alone, so that independent processes agree on where one chunk ends and the
    next begins.

    Raises:
        ValueError: the file became shorter while it was read, or has no cut for `max_bytes`.
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
        # Beyond `reach` the first cut of either kind: a larger target never has an earlier cut.
        if cut is not None:
            return origin + (cut if inside is None else min(inside, cut))
        if inside is not None and (window >= reach or stop == size):
            return origin + inside
        if stop == size:
            return size
        if stop - target > max_bytes:
            name = getattr(file, "name", "the file")
            raise piece_too_long(f"{name}, the text from byte {target:,} on", max_bytes)
        # Bytes up to `stop` are decided: the next, larger window only searches the rest.
        searched, window = max(searched, stop), window * 2


def safe_blocks(
    blocks: Iterable[bytes],
    cuts: SafeCuts,
    offset: int = 0,
    path: str = "the text",
    max_bytes: int = MAX_PIECE_BYTES,
) -> Iterator[bytes]:
    """Regroup the blocks of a text so that each can be split by itself, with the same result.

    Args:
        blocks: of the text.
        cuts: where it can be cut.
        offset, path: where the text begins in which file, for messages.
        max_bytes: the most that is held.

    Raises:
        ValueError: the text has no cut for more than `max_bytes`.
    """
    buffer = SafeCutBuffer(cuts)
    for block in blocks:
        if independent := buffer.add(block):
            offset += len(independent)
            yield independent
        if buffer.num_waiting > max_bytes:
            raise piece_too_long(f"{path}, the text from byte {offset:,} on", max_bytes)
    if rest := buffer.rest():
        yield rest
