"""How an output is written: as a whole, and over an older one only if that is asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from cs336_basics._support.files import new_directory


def check_is_free(output: str | os.PathLike[str], overwrite: bool) -> None:
    """Refuse an output that exists; an empty directory is free.

    Raises:
        FileExistsError: it exists, and `overwrite` is false.
    """
    path = Path(output)
    if overwrite or not os.path.lexists(path) or (path.is_dir() and not any(path.iterdir())):
        return
    state = "is not empty" if path.is_dir() else "exists"
    raise FileExistsError(
        f"{path} {state}: choose another name, or replace what is there with overwrite=True "
        "(--overwrite)"
    )


def write_directory(output: str | os.PathLike[str], contents: Mapping[str, str | bytes]) -> None:
    """Write the files of a new directory, all of them or none.

    Args:
        output: must not exist yet, or be an empty directory.
        contents: name -> content.

    Raises:
        FileExistsError, OSError: see `new_directory`.
    """
    with new_directory(output) as directory:
        for name, content in contents.items():
            (directory / name).write_bytes(
                content.encode() if isinstance(content, str) else content
            )
