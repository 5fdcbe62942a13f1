"""How an export is written: as a whole, and over an older one only if that is asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from cs336_basics._support.files import making_directory
from cs336_basics._support.journal import changing_together


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


def write_directory(
    directory: str | os.PathLike[str],
    contents: Mapping[str, str | bytes],
    stale: Iterable[str] = (),
) -> None:
    """Write files of a directory, all of them or none.

    Args:
        directory: created if it is missing.
        contents: name -> content. The last one should be the one that readers need first.
        stale: files of an older export that readers would mix with these; they are removed.

    Raises:
        NotADirectoryError: `directory` is a file.
        OSError: the files cannot be written.
    """
    path = Path(directory)
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path} is a file: name a directory")
    with making_directory(path), changing_together(path) as change:
        for name in stale:
            change.remove(name)
        for name, content in contents.items():
            change.write(name, content)
