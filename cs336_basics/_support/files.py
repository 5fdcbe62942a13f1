"""Atomic files, which are complete or absent: write to a temporary file, fsync, rename.

`journal.py` does the same for several files that belong together.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from cs336_basics._support.disk import make_directory, missing_directories, sync_directory
from cs336_basics._support.journal import complete_change
from cs336_basics._support.temporary_files import ALONE, NewFile, remove_leftovers

_BLOCK = 1 << 20


@contextlib.contextmanager
def atomic_writer(path: str | os.PathLike[str], mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a temporary file that becomes `path` when the block ends without an exception.

    The data is on the disk before the name changes, so a crash at any moment leaves the old file
    or the complete new one. On an exception the temporary file is removed; after a crash, the next
    writer of the same name removes it.

    Args:
        path: the final name; its directory is created if it is missing. Where it is a link, the
            link stays, and its target is replaced.
        mode: `"wb"`, `"w+b"`, or `"w"` (UTF-8 with LF line ends on every platform).

    Raises:
        IsADirectoryError: `path` is a directory.
        ValueError: it is a device, a FIFO or a socket, which cannot be replaced as a whole.
        OSError: it cannot be written (the disk is full).
    """
    with _replacing(path, mode) as new:
        yield new.file


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the name of an empty temporary file that becomes `path`, as `atomic_writer` does.

    For libraries that open the file themselves. They must close it before the block ends.

    Args:
        path, and errors: see `atomic_writer`.
    """
    with _replacing(path, "wb") as new:
        yield new.temporary


@contextlib.contextmanager
def _replacing(path: str | os.PathLike[str], mode: str) -> Iterator[NewFile]:
    """Yield a new file that replaces `path` when the block ends without an exception."""
    path = Path(path)
    complete_change(path.parent)  # a file of an older change must not replace this one
    new = NewFile(path, mode, ALONE)
    try:
        remove_leftovers(new.target, ALONE)
        yield new
        new.finish()
        new.replace()
    finally:
        new.remove()
    sync_directory(new.target.parent)


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write `content` as indented UTF-8 JSON, atomically."""
    with atomic_writer(path, "w") as file:
        dump_json(content, file)


def dump_json(content: Any, file: IO[str]) -> None:
    """Write `content` as indented JSON to an open file."""
    json.dump(content, file, ensure_ascii=False, indent=2)
    file.write("\n")


def json_text(content: Any) -> str:
    """Return `content` as indented JSON, as `write_json` writes it."""
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


@contextlib.contextmanager
def making_directory(path: str | os.PathLike[str]) -> Iterator[bool]:
    """Create a directory, and its parents, for the block; yield whether it is new.

    After an exception the directories that were created are removed again if they are empty.
    """
    target = Path(path)
    missing = missing_directories(target)
    try:
        make_directory(target)
        yield bool(missing)
    except BaseException:
        with contextlib.suppress(OSError):  # not empty
            for folder in missing:
                folder.rmdir()
        raise


def check_is_no_input(output: str | os.PathLike[str], inputs: Iterable[str]) -> None:
    """Refuse to replace a file that is read, whatever name it has here. Inputs may be URLs.

    Raises:
        ValueError: `output` is one of the inputs.
    """
    identity = _identity(output)
    if identity is not None and identity in map(_identity, inputs):
        raise ValueError(f"{output} would replace a file that is read: choose another name")


def _identity(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    """Return what identifies a file under all its names, None where there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def printable_path(path: str | os.PathLike[str]) -> str:
    """Return a path as text that UTF-8 can encode; a file name need not be valid Unicode."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def sha256_file(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes as 64 hexadecimal digits, reading it in blocks."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
