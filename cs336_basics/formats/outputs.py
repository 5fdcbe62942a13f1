"""Write the outputs of an export atomically, overwriting files only if the caller allows it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from cs336_basics._support.files import new_directory


def check_is_free(output: str | os.PathLike[str], overwrite: bool) -> None:
    """Raise an error if an output exists. An empty directory is accepted.

    Raises:
        FileExistsError: If the output exists and `overwrite` is false.
    """
    path = Path(output)
    if overwrite or not os.path.lexists(path) or (path.is_dir() and not any(path.iterdir())):
        return
    state = "is not empty" if path.is_dir() else "exists"
    raise FileExistsError(
        f"{path} {state}; choose another name, or pass overwrite=True (--overwrite) to replace it"
    )


def write_directory(output: str | os.PathLike[str], contents: Mapping[str, str | bytes]) -> None:
    """Write a new directory of files atomically.

    Args:
        output: Directory to write. It must be new or empty.
        contents: Mapping of file name -> content.

    Raises:
        FileExistsError, OSError: See `new_directory`.
    """
    with new_directory(output) as directory:
        for name, content in contents.items():
            (directory / name).write_bytes(
                content.encode() if isinstance(content, str) else content
            )
