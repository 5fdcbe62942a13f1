"""Opens what a corpus consists of: local files, URLs, compressed files; `arrow.py` opens tables.

The libraries for URLs (fsspec) and Zstandard are imported when they are needed.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from typing import IO, Any

COMPRESSED_ENDINGS = (".gz", ".zst")


def is_url(path: str) -> bool:
    """Return whether a path is a URL, which fsspec opens (`s3://`, `gs://`, `memory://`, ...)."""
    return "://" in path


def is_compressed(path: str) -> bool:
    """Return whether the name of a file says that it is compressed."""
    return path.lower().endswith(COMPRESSED_ENDINGS)


def open_path(path: str) -> IO[bytes]:
    """Open a local file or a URL for reading bytes.

    Raises:
        FileNotFoundError, PermissionError, OSError: as `open`.
        ImportError: the path is a URL and fsspec is not installed.
    """
    if not is_url(path):
        return open(path, "rb")
    try:
        import fsspec
    except ImportError:
        raise ImportError(f"opening {path} needs fsspec: pip install 'cs336-basics[ray]'") from None
    opened: IO[bytes] = fsspec.open(path, "rb").open()
    return opened


def size_of(path: str) -> int:
    """Return the size of a local file or a URL, in bytes, as it is stored."""
    if not is_url(path):
        return os.stat(path).st_size
    with open_path(path) as file:
        return file.seek(0, os.SEEK_END)


def decompressed_blocks(file: IO[bytes], path: str, block_size: int) -> Iterator[bytes]:
    """Yield the decompressed bytes of an open .gz or .zst file, at most `block_size` at a time.

    Raises:
        ValueError: the file is damaged or ends too early; the message names it and how many bytes
            were read before the damage.
        ImportError: no library for Zstandard is installed.
    """
    stream: Any
    if path.lower().endswith(".gz"):
        import gzip

        stream = gzip.GzipFile(fileobj=file)
        damaged: tuple[type[Exception], ...] = (EOFError, OSError, zlib.error)
    else:
        zstd = _import_zstd(path)
        stream = zstd.ZstdFile(file)
        damaged = (EOFError, zstd.ZstdError)
    done = 0
    with stream:
        while True:
            try:
                block: bytes = stream.read(block_size)
            except damaged as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise  # of the disk, not of the content
                raise ValueError(
                    f"{path} is damaged or truncated after {done:,} decompressed bytes: {error}"
                ) from None
            if not block:
                return
            done += len(block)
            yield block


def became_shorter(path: str | os.PathLike[str], size: int, expected: int) -> ValueError:
    """Return the error for a file that ends before bytes that it had when it was divided."""
    return ValueError(
        f"{os.fspath(path)} ended at byte {size:,} where bytes up to {expected:,} were expected: "
        "the file became shorter while it was read"
    )


def _import_zstd(path: str) -> Any:
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        try:
            from backports import zstd
        except ImportError:
            raise ImportError(
                f"reading {path} needs Zstandard: pip install 'cs336-basics[zstd]'"
            ) from None
    return zstd
