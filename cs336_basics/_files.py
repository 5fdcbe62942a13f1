"""Atomic files, which are complete or absent: write to a temporary file, fsync, rename."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

with contextlib.suppress(ImportError):  # Windows lacks it: there, leftovers stay
    import fcntl

_BLOCK = 1 << 20


@contextlib.contextmanager
def atomic_writer(path: str | os.PathLike[str], mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a temporary file that becomes `path` when the block ends without an exception.

    The data is on the disk before the name changes, so a crash at any moment leaves the old file
    or the complete new one. On an exception the temporary file is removed; after a crash, the next
    writer of the same name removes it.

    Args:
        path: the final name; its directory is created if it is missing.
        mode: `"wb"`, `"w+b"`, or `"w"` (UTF-8 with LF line ends on every platform).

    Raises:
        IsADirectoryError: `path` is a directory.
        OSError: it cannot be written (the disk is full).
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a directory: name a file to write to")
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(target)
    encoding, newline = (None, None) if "b" in mode else ("utf-8", "\n")
    handle, temporary, lock = _make_temporary(target)
    try:
        file = os.fdopen(handle, mode, encoding=encoding, newline=newline)
        try:
            yield file
            with naming(target):
                sync_open_file(file)
        finally:
            # After an error, a second one while closing must not hide it.
            with contextlib.suppress(OSError):
                file.close()
        os.chmod(temporary, 0o666 & ~_UMASK)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    finally:
        if lock is not None:
            os.close(lock)
    sync_directory(target.parent)


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


def _make_temporary(target: Path) -> tuple[int, str, int | None]:
    """Return the handle and the name of a new file, and a handle that keeps it locked.

    The lock shows that the writer is running: it ends with the process, however that ends, and
    unlike a process number it is valid in every container that shares the directory.
    """
    while True:
        # The leading dot hides the file; the random characters separate two writers of one name.
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
        if os.name == "nt":
            return handle, name, None
        # On a file system without locks nobody can lock, so that no file counts as a leftover.
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.exists(name):
            # The lock belongs to the open file, which exists until both handles are closed.
            return handle, name, os.dup(handle)
        os.close(handle)  # another writer removed it as a leftover before it was locked


def _remove_leftovers(target: Path) -> None:
    """Remove the temporary files that dead writers of a name left."""
    if os.name == "nt":
        return
    temporary = re.compile(rf"\.{re.escape(target.name)}\.[a-z0-9_]{{8}}\.tmp")
    for name in os.listdir(target.parent):
        if not temporary.fullmatch(name):
            continue
        path = target.parent / name
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            finally:
                os.close(handle)


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write `content` as indented UTF-8 JSON, atomically."""
    with atomic_writer(path, "w") as file:
        dump_json(content, file)


def dump_json(content: Any, file: IO[str]) -> None:
    """Write `content` as indented JSON to an open file."""
    json.dump(content, file, ensure_ascii=False, indent=2)
    file.write("\n")


@contextlib.contextmanager
def making_directory(path: str | os.PathLike[str]) -> Iterator[bool]:
    """Create a directory, and its parents, for the block; yield whether it is new.

    After an exception the directories that were created are removed again if they are empty.
    """
    target = Path(path)
    missing = [folder for folder in (target, *target.parents) if not folder.exists()]
    try:
        target.mkdir(parents=True, exist_ok=True)
        yield bool(missing)
    except BaseException:
        with contextlib.suppress(OSError):  # not empty
            for folder in missing:
                folder.rmdir()
        raise


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


def _read_umask() -> int:
    # The mask can only be read by setting it, which affects other threads: once, at import.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


# mkstemp makes files that only their owner can read; a finished file gets the usual permissions.
_UMASK = _read_umask()


def sync_file(file: Path) -> None:
    """Wait until the content of a file is on the disk."""
    with open(file, "rb+") as handle:
        os.fsync(handle.fileno())


def sync_directory(directory: Path) -> None:
    """Wait until the names in a directory are on the disk."""
    # A rename changes the directory. Windows cannot open one, and needs no sync.
    if os.name == "nt":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
