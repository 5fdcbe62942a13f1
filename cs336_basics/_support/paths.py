"""Names of files: as messages show them, and what is at a path.

`files.py` writes files. It needs more of the standard library than a program that only reads: here,
not even `pathlib`, which takes as long to import as ten of our modules.
"""

from __future__ import annotations

import os
import stat

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import shown_names


def existing_directory(path: str | os.PathLike[str]) -> str | None:
    """Return an existing directory, or the directory of an existing file, as an absolute path.

    The given path may start with `~`. If nothing exists there, return None.
    """
    found = os.path.abspath(os.path.expanduser(path))
    if os.path.isdir(found):
        return found
    return os.path.dirname(found) if os.path.isfile(found) else None


def check_is_regular(path: str | os.PathLike[str], mode: int) -> None:
    """Check that `path` is a regular file, given its mode from `os.stat`.

    Raises:
        ValueError: If `path` is a directory, a device, a FIFO or a socket.
    """
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "directory", stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket"}
        kind = kinds.get(stat.S_IFMT(mode), "device")
        raise InputError(f"{os.fspath(path)} is a {kind}", remedy="use a regular file")


def printable_path(path: str | os.PathLike[str]) -> str:
    """Return a path as a string that UTF-8 can encode, even if the path is not valid Unicode.

    A temporary file gets its name in `shown_names`.
    """
    path = os.fspath(path)
    return os.fsencode(shown_names.get(path, path)).decode("utf-8", "backslashreplace")
