"""Names of files: as messages show them, and what is at a path.

`files.py` writes files. It needs more of the standard library than a program that only reads: here,
not even `pathlib`, which takes as long to import as ten of our modules.
"""

from __future__ import annotations

import os
import stat

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.messages import short_repr, shown_names


def checked_path(name: str, value: object) -> str:
    """Check that the argument called `name` is a path, and return it as a str.

    A leading `~` is replaced by the home directory.

    Raises:
        InputTypeError: If the value is neither a str nor a path object.
        InputError: If it contains a character that no file name can contain.
    """
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str):
        raise InputTypeError(f"must be a str or Path, got {short_repr(value)}", argument=name)
    try:
        is_possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:  # a lone surrogate that stands for no byte
        is_possible = False
    if not is_possible:
        raise InputError(
            f"must not contain a NUL character or a lone surrogate, got {short_repr(path)}",
            argument=name,
        )
    return os.path.expanduser(path)


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
