"""Waiting until files and their names are on the disk, and naming files in its errors."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add the file's name to errors of writing to an open file, such as a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        reason = os.strerror(error.errno)
        raise OSError(error.errno, reason, os.fspath(path)) from error


def sync_open_file(file: IO[Any]) -> None:
    """Wait until the content of an open file is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_file(file: Path) -> None:
    """Wait until the content of a file is on the disk."""
    with open(file, "rb+") as handle:
        os.fsync(handle.fileno())


def sync_directory(directory: Path) -> None:
    """Wait until the names in a directory are on the disk, where the system can do that."""
    # A rename changes the directory. Windows cannot open one.
    if os.name == "nt":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems
            raise
    finally:
        os.close(handle)


def missing_directories(directory: Path) -> list[Path]:
    """Return a directory and its parents as far as they do not exist, the deepest first."""
    return [folder for folder in (directory, *directory.parents) if not folder.exists()]


def make_directory(directory: Path) -> None:
    """Create a directory and its parents where they are missing, and put their names on disk."""
    if directory.is_dir():
        return
    missing = missing_directories(directory)
    directory.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync_directory(folder.parent)
