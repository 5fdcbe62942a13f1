"""Files on object stores and other servers, by URL. fsspec is imported on first use.

The storage package (s3fs, gcsfs, ...) retries failed requests, as configured by environment
variables. If a request still fails, an OSError that names the URL is raised.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from cs336_basics._support.errors import InputError, UnavailableError
from cs336_basics._support.lazy import LazyModule, needed_for
from cs336_basics._support.messages import short_reason

if TYPE_CHECKING:
    import pathlib
    import tempfile
else:
    pathlib, tempfile = map(LazyModule, ("pathlib", "tempfile"))

_LONGEST_REASON = 300

_NUMBERS = {
    FileNotFoundError: errno.ENOENT,
    PermissionError: errno.EACCES,
    FileExistsError: errno.EEXIST,
    TimeoutError: errno.ETIMEDOUT,
}


def is_url(path: str) -> bool:
    """Return whether a path is a URL for fsspec, such as `s3://...` or `gs://...`."""
    return "://" in path


def open_url(url: str, read_ahead: int | None = None) -> BinaryIO:
    """Open a URL in binary mode for reading. Errors while reading also name the URL.

    Args:
        url: URL of the file.
        read_ahead: Number of bytes to request beyond those that are read. By default, the storage
            package chooses it. s3fs requests 50 MB, enough for a chunk of a corpus and the text
            around its two ends.

    Raises:
        FileNotFoundError, PermissionError, OSError: If the file cannot be opened.
        ValueError: If fsspec does not support the protocol.
        ImportError: If fsspec or the storage package is not installed.
    """
    system, path = _find(url)
    with _naming(url):
        return _UrlFile(system.open(path, "rb", block_size=read_ahead), url)  # type: ignore[return-value]


def state_of_url(url: str) -> tuple[int, int | None]:
    """Return the size of a file and its last modification time in ns (None if it is unknown)."""
    system, path = _find(url)
    with open_url(url) as file:
        size = file.seek(0, os.SEEK_END)
    with _naming(url):
        try:
            # Some servers report fractions of a second in listings but not for single objects.
            return size, int(system.modified(path).timestamp()) * 10**9
        except NotImplementedError:
            return size, None


def matching_urls(url: str) -> list[str]:
    """Return the URL itself or, if it contains `*`, the sorted URLs of the matching files.

    `*` in the address of a web page is not a wildcard.
    """
    if "*" not in url or is_web(url):
        return [url]
    system, path = _find(url)
    with _naming(url):
        system.invalidate_cache()  # files may have been added
        return sorted(system.unstrip_protocol(name) for name in system.glob(path))


def names_in(url: str) -> list[str]:
    """Return the names of the files in a folder, or an empty list if it does not exist.

    Raises:
        ValueError: If the URL is the address of a web page, which cannot be written to.
    """
    if is_web(url):
        raise InputError(
            "a web server cannot be written to", place=url, remedy="use an object store"
        )
    system, path = _find(url)
    with _naming(url):
        system.invalidate_cache()  # other machines may have added files
        try:
            return sorted(os.path.basename(name) for name in system.ls(path, detail=False))
        except FileNotFoundError:
            return []


@contextlib.contextmanager
def uploaded(path: str) -> Iterator[pathlib.Path]:
    """Yield the name of a local file to write, which becomes `path` at the end of the block.

    If the block raises an exception, nothing is uploaded. An object store shows an object only when
    it is complete. If `path` is local, `path` itself is yielded.
    """
    if not is_url(path):
        yield pathlib.Path(path)
        return
    system, target = _find(path)
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory, os.path.basename(path))
        yield file
        with _naming(path):
            system.put_file(str(file), target)


@contextlib.contextmanager
def downloaded(path: str) -> Iterator[pathlib.Path]:
    """Yield a temporary local copy of a file. If `path` is local, `path` itself is yielded.

    Raises:
        FileNotFoundError, PermissionError, OSError: If the file cannot be read.
    """
    if not is_url(path):
        yield pathlib.Path(path)
        return
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory, os.path.basename(path))
        download(path, file)
        yield file


def download(url: str, file: pathlib.Path) -> None:
    """Copy the content of a URL to a local file."""
    system, path = _find(url)
    with _naming(url):
        system.get_file(path, str(file))


def remove_url(url: str) -> None:
    """Remove the file at a URL."""
    system, path = _find(url)
    with _naming(url):
        system.rm_file(path)


def is_web(url: str) -> bool:
    """Return whether a path is the address of a web page or of a file on a web server."""
    return url.lower().startswith(("http://", "https://"))


def _find(url: str) -> tuple[Any, str]:
    """Return fsspec's file system for a URL, and the path of the file in that file system."""
    with needed_for(url, "'cs336-basics[ray]'"):
        import fsspec
    try:
        found: tuple[Any, str] = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise UnavailableError(short_reason(error), place=url) from error
    except ValueError as error:  # fsspec knows no such protocol
        raise InputError(short_reason(error), place=url) from error
    return found


@contextlib.contextmanager
def _naming(url: str) -> Iterator[None]:
    """Convert exceptions from fsspec and its packages to OSErrors that name the URL."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as raised:
        # s3fs, for example, fails with an IndexError while it handles a timeout.
        found: BaseException | None = raised
        while found is not None and not isinstance(found, OSError):
            found = found.__cause__ or found.__context__
        error = found or raised
        number = getattr(error, "errno", None) or next(
            (known for kind, known in _NUMBERS.items() if isinstance(error, kind)), errno.EIO
        )
        reason = getattr(error, "strerror", None) or str(error)
        if reason in url:  # empty, or a part of the path
            reason = os.strerror(number)
        raise OSError(number, " ".join(reason.split())[:_LONGEST_REASON], url) from raised


class _UrlFile(io.BufferedIOBase):
    """A file opened with fsspec. Its errors name the URL."""

    def __init__(self, file: Any, url: str) -> None:
        self._file = file
        self.name = url

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        with _naming(self.name):
            content: bytes = self._file.read(-1 if size is None else size)
            return content

    def read1(self, size: int = -1) -> bytes:
        return self.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        with _naming(self.name):
            found: int = self._file.seek(offset, whence)
            return found

    def tell(self) -> int:
        position: int = self._file.tell()
        return position

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
