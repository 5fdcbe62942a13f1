"""Expand paths, globs, directories and URLs into the names of files."""

from __future__ import annotations

import glob
import io
import os
import stat
from collections.abc import Iterable
from typing import Union

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.urls import is_url, matching_urls
from cs336_basics.text.sources.kinds import has_known_ending

PathsLike = Union[str, "os.PathLike[str]", Iterable[Union[str, "os.PathLike[str]"]]]
"""A path, glob, directory or URL, or an iterable of these."""


def expand_paths(paths: PathsLike) -> tuple[str, ...]:
    """Expand paths, globs and directories into file names; see `Corpus`."""
    return tuple(file for name in _names_of(paths) for file in _expand(name))


def _names_of(paths: object) -> tuple[str, ...]:
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    if isinstance(paths, (bytes, io.IOBase)) or not isinstance(paths, Iterable):
        raise InputTypeError(
            f"must be a str or Path, or a list of these, got {short_repr(paths)}", argument="paths"
        )
    several = []
    for path in paths:  # check while iterating, because a dataset's rows may be endless
        if not isinstance(path, (str, os.PathLike)):
            raise InputTypeError(
                f"must contain str or Path, got {short_repr(path)}; for rows in memory, use "
                "train_from_iterator or encode_rows",
                argument="paths",
            )
        several.append(os.fspath(path))
    return tuple(several)


def _expand(name: str) -> list[str]:
    """Return the files that a path, glob, directory or URL stands for."""
    if is_url(name):
        urls = matching_urls(name)
        if not urls:
            raise FileNotFoundError(f"no file matches the glob {name!r}")
        return urls
    try:
        mode = os.stat(name).st_mode
    except (FileNotFoundError, NotADirectoryError):
        if not glob.has_magic(name):
            raise FileNotFoundError(f"{name!r} does not exist") from None
        found = sorted(file for file in glob.glob(name, recursive=True) if os.path.isfile(file))
        if not found:
            raise FileNotFoundError(f"no file matches the glob {name!r}") from None
        return found
    if stat.S_ISDIR(mode):
        return _files_in(name)
    if not stat.S_ISREG(mode):
        raise InputError(
            f"{name!r} is a pipe or a device, which cannot be read in chunks",
            remedy="save its content to a file first",
        )
    return [name]


def _files_in(directory: str) -> list[str]:
    """Return the files with known endings in a directory and its subdirectories, sorted.

    Raises:
        ValueError: If there are no such files.
    """
    found = []
    for folder, folders, names in os.walk(directory):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            path = os.path.join(folder, name)
            if has_known_ending(name) and not name.startswith(".") and os.path.isfile(path):
                found.append(path)
    if not found:
        raise InputError(
            f"{directory!r} is a directory without text files (.txt, .md, .jsonl, .csv, .parquet, "
            "...)",
            remedy="pass files or a glob",
        )
    return sorted(found)
