"""Read local files, URLs and compressed files.

The library for Zstandard is imported on first use.
"""

from __future__ import annotations

import itertools
import os
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Any

from cs336_basics._support.errors import Argument, InputError, UnavailableError
from cs336_basics._support.urls import is_url, open_url, state_of_url

COMPRESSED_ENDINGS = (".gz", ".zst")

MAX_PIECE_BYTES = 64 << 20
"""Default maximum number of bytes in a row, and in text without a safe cut."""


def is_compressed(path: str) -> bool:
    """Return whether a path ends in .gz or .zst."""
    return path.lower().endswith(COMPRESSED_ENDINGS)


def open_path(path: str) -> IO[bytes]:
    """Open a local file or a URL in binary mode for reading.

    Raises:
        FileNotFoundError, PermissionError, OSError: If the file cannot be opened.
        ImportError: If the path is a URL and fsspec is not installed.
    """
    return open_url(path) if is_url(path) else open(path, "rb")


def size_of(path: str) -> int:
    """Return the stored size, in bytes, of a local file or of the file at a URL."""
    if not is_url(path):
        return os.stat(path).st_size
    with open_path(path) as file:
        return file.seek(0, os.SEEK_END)


def state_of(path: str) -> tuple[int, int | None]:
    """Return the stored size of a file and its last modification time in nanoseconds.

    Together, they show whether the file has changed. For a URL, the time is truncated to whole
    seconds, or None if the storage does not report it.
    """
    if is_url(path):
        return state_of_url(path)
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def decompressed_blocks(file: IO[bytes], path: str, block_size: int) -> Iterator[bytes]:
    """Yield the rest of an open file in blocks of up to `block_size` bytes.

    The content of a .gz or .zst file is decompressed.

    Raises:
        ValueError: If the file is damaged or truncated. The message includes the number of bytes
            read so far.
        ImportError: If no Zstandard library is installed.
    """
    stream: Any = file
    damaged: tuple[type[Exception], ...] = ()
    if path.lower().endswith(".gz"):
        import gzip

        stream = gzip.GzipFile(fileobj=file)
        damaged = (EOFError, OSError, zlib.error)
    elif path.lower().endswith(".zst"):
        try:
            from compression import zstd  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            try:
                from backports import zstd
            except ImportError:
                raise UnavailableError(
                    ".zst files need Zstandard",
                    place=str(path),
                    remedy="run pip install 'cs336-basics[zstd]'",
                ) from None
        stream = zstd.ZstdFile(file)
        damaged = (EOFError, zstd.ZstdError)
    done = 0
    while True:
        try:
            block: bytes = stream.read(block_size)
        except damaged as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # from the operating system, not the decompressor
            what = (
                f"damaged or truncated after {done:,} decompressed bytes"
                if done
                else "damaged, truncated or not compressed"
            )
            raise InputError(f"{what}: {error}", place=str(path)) from None
        if not block:
            return
        done += len(block)
        yield block


def blocks_between(
    file: IO[bytes], path: str, start: int, end: int, block_size: int
) -> Iterator[bytes]:
    """Yield the bytes of a file from `start` to `end`, exclusive.

    Raises:
        ValueError: If the file ends before `end`.
    """
    file.seek(start)
    while start < end:
        block = file.read(min(block_size, end - start))
        if not block:
            raise became_shorter(path, start, end)
        start += len(block)
        yield block


def lines_of(
    blocks: Iterable[bytes], offset: int, path: str, max_bytes: int
) -> Iterator[tuple[int, bytes]]:
    """Yield `(byte offset, line)` from a file's blocks. The first block starts at `offset`.

    If the last line ends with a line feed, an empty line follows.

    Raises:
        ValueError: If a line is longer than `max_bytes`. The rest of the line is not read.
    """

    def too_long() -> InputError:
        return piece_too_long(f"{path}, the line at byte {offset:,}", max_bytes)

    rest: list[bytes] = []  # parts of an incomplete line, joined only once it is complete
    num_waiting = 0
    for block in itertools.chain(blocks, [b"\n"]):  # ends the last line
        first, *more = block.split(b"\n")
        rest.append(first)
        num_waiting += len(first)
        if num_waiting > max_bytes:
            raise too_long()
        if not more:
            continue
        lines = [b"".join(rest), *more]
        rest = [lines.pop()]
        num_waiting = len(rest[0])
        for line in lines:
            if len(line) > max_bytes:
                raise too_long()
            yield offset, line
            offset += len(line) + 1


def piece_too_long(where: str, max_bytes: int) -> InputError:
    """Return an error for a row, or text without a safe cut, that exceeds the limit."""
    return InputError(
        f"{where} is longer than {max_bytes:,} bytes, the limit for a row and for text that cannot "
        "be divided",
        remedy=("to read it, increase ", Argument("max_piece_bytes")),
    )


def became_shorter(path: str | os.PathLike[str], size: int, expected: int) -> InputError:
    """Return an error for a file that was truncated after it was divided into chunks."""
    return InputError(
        f"the file ended at byte {size:,}, but must have at least {expected:,} bytes; it was "
        "truncated while it was being read",
        place=os.fspath(path),
    )


def invalid_utf8_error(where: str | os.PathLike[str] | None, byte: int, offset: int) -> InputError:
    """Return the `errors="strict"` error for the first invalid byte in a file or text.

    `where` is None for text in memory.
    """
    return InputError(
        f"byte {byte:#04x} at offset {offset:,} is not valid UTF-8",
        remedy=("pass ", Argument("errors", "replace"), " to read such bytes as U+FFFD"),
        place="" if where is None else os.fspath(where),
    )
