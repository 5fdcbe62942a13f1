"""NewFile: a file under a temporary name, next to the one that it will replace."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import tempfile
from pathlib import Path
from typing import IO, Any

from cs336_basics._support.disk import make_directory, naming, sync_open_file

with contextlib.suppress(ImportError):  # Windows lacks it: there, leftovers stay
    import fcntl

ALONE = ".tmp"
"""Suffix of a file that replaces another one by itself; any later writer may remove it."""
TOGETHER = ".new"
"""Suffix of a file that changes together with others; a journal may depend on it."""

_LONGEST_STEM = 100
"""Bytes of a name that a temporary name repeats; 255 is the limit of most systems."""


class NewFile:
    """A file that is written under a temporary name and then renamed.

    The temporary file is in the directory of the file that it replaces, and is locked while its
    writer runs. The lock ends with the process, however that ends, and unlike a process number it
    is valid in every container that shares the directory.

    Args:
        path: the final name. A link stays, and its target is replaced.
        mode: `"wb"`, `"w+b"`, or `"w"` (UTF-8 with LF line ends on every platform).
        suffix: ALONE or TOGETHER.

    Attributes:
        file: open for writing.
        target: the file that will be replaced.
        temporary: its name until then.

    Raises:
        IsADirectoryError, ValueError: see `replaced_file`.
        OSError: it cannot be created.
    """

    def __init__(self, path: str | os.PathLike[str], mode: str, suffix: str) -> None:
        self.target = replaced_file(path)
        make_directory(self.target.parent)
        handle, name, self._lock = _make_temporary(self.target, suffix)
        self.temporary = Path(name)
        try:
            encoding, newline = (None, None) if "b" in mode else ("utf-8", "\n")
            self.file: IO[Any] = os.fdopen(handle, mode, encoding=encoding, newline=newline)
        except BaseException:
            self.release()
            os.close(handle)
            os.unlink(name)
            raise

    def finish(self) -> int:
        """Wait until the content is on the disk, and close the file; return its size in bytes."""
        with naming(self.target):
            sync_open_file(self.file)
            size = os.fstat(self.file.fileno()).st_size
            self.file.close()
        # A file that is replaced keeps its permissions.
        try:
            mode = os.stat(self.target).st_mode & 0o777
        except OSError:
            mode = 0o666 & ~_UMASK
        os.chmod(self.temporary, mode)
        return size

    def replace(self) -> None:
        """Give the file its final name."""
        os.replace(self.temporary, self.target)

    def remove(self) -> None:
        """Remove the temporary file, if it still has that name, and release its lock."""
        with contextlib.suppress(OSError):  # after an error, a second one must not hide it
            self.file.close()
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.temporary)
        finally:
            self.release()

    def release(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def replaced_file(path: str | os.PathLike[str]) -> Path:
    """Return the file that is replaced when `path` is written: `path`, or the target of a link.

    Raises:
        IsADirectoryError: it is a directory.
        ValueError: it is a device, a FIFO or a socket, which cannot be replaced as a whole.
    """
    path = Path(path)
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:  # or a link to a file that does not exist yet
        mode = stat.S_IFREG
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{path} is a directory: name a file to write to")
    check_is_regular(path, mode)
    target = path
    while target.is_symlink():
        parent = target.parent
        if os.path.realpath(parent).startswith("/proc/"):
            # /dev/stdout: renaming a file over the one that it stands for would lose its output.
            raise ValueError(f"{path} is an open file of a process: name a regular file")
        target = parent / os.readlink(target)
    return target


def check_is_regular(path: str | os.PathLike[str], mode: int) -> None:
    """Check that a file is a regular one.

    Args:
        path: its name, for the message.
        mode: its mode, as `os.stat` returns it.

    Raises:
        ValueError: it is a device, a FIFO or a socket.
    """
    if stat.S_ISREG(mode):
        return
    kinds = {stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket"}
    kind = kinds.get(stat.S_IFMT(mode), "device")
    raise ValueError(f"{os.fspath(path)} is a {kind}: name a regular file")


def temporary_name_pattern(name: str, suffix: str) -> re.Pattern[str]:
    """Return the pattern of the temporary names of a file."""
    return re.compile(re.escape(temporary_prefix(name)) + "[a-z0-9_]{8}" + re.escape(suffix))


def remove_leftovers(target: Path, suffix: str) -> None:
    """Remove the temporary files that dead writers of a name left."""
    if os.name == "nt":
        return
    pattern = temporary_name_pattern(target.name, suffix)
    for name in os.listdir(target.parent):
        if not pattern.fullmatch(name):
            continue
        path = target.parent / name
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            finally:
                os.close(handle)


def _make_temporary(target: Path, suffix: str) -> tuple[int, str, int | None]:
    """Return the handle and the name of a new file, and a handle that keeps it locked."""
    while True:
        # The leading dot hides the file; the random characters separate two writers of one name.
        handle, name = tempfile.mkstemp(
            prefix=temporary_prefix(target.name), suffix=suffix, dir=target.parent
        )
        if os.name == "nt":
            return handle, name, None
        try:
            # On a file system without locks nobody can lock, so that no file counts as a leftover.
            with contextlib.suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
            if os.path.exists(name):
                # The lock belongs to the open file, which exists until both handles are closed.
                return handle, name, os.dup(handle)
        except BaseException:
            os.close(handle)
            os.unlink(name)
            raise
        os.close(handle)  # another writer removed it as a leftover before it was locked


def temporary_prefix(name: str) -> str:
    """Return how the temporary names of a file begin: with its name, or the hash of a long one."""
    stem = os.fsencode(name)
    if len(stem) <= _LONGEST_STEM:
        return f".{name}."
    return f".{hashlib.sha256(stem).hexdigest()[:32]}."


def _read_umask() -> int:
    # The mask can only be read by setting it, which affects other threads: once, at import.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


# mkstemp makes files that only their owner can read; a finished file gets the usual permissions.
_UMASK = _read_umask()
