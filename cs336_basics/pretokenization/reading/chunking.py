"""Divides files and streams of text at safe cuts; see `safe_cuts.py` for where those are.

The chunks can be split into pre-tokens one by one, with the same result as the whole text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import IO

from cs336_basics._support.arguments import checked_integer
from cs336_basics.pretokenization.reading.storage import became_shorter
from cs336_basics.pretokenization.reading.utf8_errors import invalid_utf8_error
from cs336_basics.pretokenization.safe_cuts import SafeCutBuffer, SafeCuts
from cs336_basics.pretokenization.splitter import Splitter

DEFAULT_CHUNK_SIZE = 4 << 20
"""Bytes in a chunk: few enough for an even load and little memory, enough to hide the cost of
passing it to another process."""

_WINDOW = 1 << 16


def chunk_bounds(
    path: str | os.PathLike[str],
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    splitter: Splitter | None = None,
) -> Iterator[tuple[int, int]]:
    """Yield byte offsets `(start, end)` of chunks that cover a file and can be split one by one.

    A chunk has at least `chunk_size` bytes (except the last) and ends at the first special token
    after that. If none comes within another `chunk_size` bytes, it ends at the first safe cut
    inside the text; if there is none either, at the next one of any kind or at the end of the file.

    Raises:
        ValueError: `chunk_size` is not positive.
        FileNotFoundError, IsADirectoryError, PermissionError: as `open`.
    """
    check_chunk_size(chunk_size)
    cuts = (splitter or Splitter()).safe_cuts
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = 0
        while start < size:
            end = _first_cut(file, start + chunk_size, size, cuts, reach=chunk_size)
            yield start, end
            start = end


def next_cut(file: IO[bytes], target: int, cuts: SafeCuts) -> int:
    """Return the first safe cut at or after `target` of an open file, in bytes.

    It depends on the file and on `target` alone, so that independent processes
    agree on where the chunk of one ends and that of the next begins.
    """
    size = file.seek(0, os.SEEK_END)
    return _first_cut(file, target, size, cuts, reach=DEFAULT_CHUNK_SIZE)


def _first_cut(file: IO[bytes], target: int, size: int, cuts: SafeCuts, reach: int) -> int:
    """Return the first offset at or after `target` where a chunk may end."""
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
        if cut is not None:
            return origin + cut
        if inside is None:
            inside = cuts.inside_text(data, searched - origin, stop - origin)
        if inside is not None and (window >= reach or stop == size):
            return origin + inside
        if stop == size:
            return size
        # Bytes up to `stop` are decided: the next, larger window only searches the rest.
        searched, window = max(searched, stop), window * 2


def safe_blocks(blocks: Iterable[bytes], cuts: SafeCuts) -> Iterator[bytes]:
    """Regroup the blocks of a text so that each can be split by itself, with the same result."""
    buffer = SafeCutBuffer(cuts)
    for block in blocks:
        if independent := buffer.add(block):
            yield independent
    if rest := buffer.rest():
        yield rest


def check_chunk_size(chunk_size: int, name: str = "chunk_size") -> int:
    """Return a number of bytes as a plain int.

    Raises:
        TypeError: it is not an integer.
        ValueError: it is not positive.
    """
    return checked_integer(name, chunk_size, 1, note=" byte")


def read_bytes(path: str | os.PathLike[str], start: int, end: int) -> bytes:
    """Return the bytes [start, end) of a file.

    Raises:
        ValueError: the file ends before `end`: it became shorter since it was divided.
    """
    with open(path, "rb") as file:
        file.seek(start)
        data = file.read(end - start)
    if len(data) != end - start:
        raise became_shorter(path, start + len(data), end)
    return data


def read_text(path: str | os.PathLike[str], start: int, end: int, errors: str = "replace") -> str:
    """Return the text of the bytes [start, end) of a file, read as UTF-8.

    Args:
        errors: `"replace"` reads bytes that are not UTF-8 as U+FFFD, `"strict"` refuses them.

    Raises:
        ValueError: (`"strict"`) a byte that is not UTF-8, named with its offset in the file; or as
            `read_bytes`.
    """
    data = read_bytes(path, start, end)
    try:
        return data.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise invalid_utf8_error(path, data[error.start], start + error.start) from None
