"""Expand paths, globs, directories and URLs into the names of files."""

from __future__ import annotations

import contextlib
import errno
import glob
import io
import os
import stat
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, Union

from cs336_basics._support.errors import InputError, InputTypeError, MissingFileError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.paths import checked_path
from cs336_basics._support.urls import is_url, matching_urls
from cs336_basics.text.sources.kinds import detected_format, has_known_ending, is_single_json

PathsLike = Union[str, "os.PathLike[str]", Iterable[Union[str, "os.PathLike[str]"]]]
"""A path, glob, directory or URL, or an iterable of these."""


IN_MEMORY = "for texts in memory, use train_from_iterator or encode_rows"
"""Remedy for texts in place of paths."""

_MARKERS = {
    "pyvenv.cfg": "a virtual environment",
    "conda-meta": "a virtual environment",
    "CACHEDIR.TAG": "a cache",  # https://bford.info/cachedir
    "data/stages.json": "a run",
}
"""Files whose directory contains no text of the user, and what such a directory is."""
_SINGLE_JSON = "a single JSON value"
_NAMES = {"node_modules": "packages", "__pycache__": "a cache"}
_BEGINNING_OF_RUN_CONFIG = b"base: none\n"  # as `config_to_yaml` writes it


class FoundFiles(NamedTuple):
    """The files that paths, globs and directories stand for."""

    files: tuple[str, ...]
    skipped: dict[str, str]
    """What was left out, and what each of them is: directories that were not entered, links
    without a file, and files with a single JSON value."""
    endings: Counter[str]
    """Number of files in directories that were left out because of their ending."""


def expand_paths(
    paths: PathsLike, format: str | None = None, field: str | None = None
) -> tuple[str, ...]:
    """Expand paths, globs and directories into file names; see `Corpus`."""
    return find_files(paths, format, field).files


def find_files(paths: PathsLike, format: str | None = None, field: str | None = None) -> FoundFiles:
    """Expand paths, globs and directories; see `Corpus`. Also return what was skipped.

    Args:
        paths: See `Corpus`.
        format: Format of all files. If None, a directory's files with a single JSON value, such as
            package.json, are skipped: they are neither text nor JSON Lines.
        field: Field of JSON Lines that contains the text. A .json file with one line is skipped if
            it does not have this field.
    """
    found = FoundFiles((), {}, Counter())
    files = [file for name in _names_of(paths) for file in _expand(name, found, format, field)]
    return found._replace(files=tuple(files))


def _kind_of_skipped(directory: str) -> str | None:
    """Return what a directory is if a search does not enter it, else None."""
    kind = _NAMES.get(os.path.basename(directory))
    if kind is not None:
        return kind
    for marker, kind in _MARKERS.items():
        if os.path.exists(os.path.join(directory, marker)):
            return kind
    config = os.path.join(directory, "config.yaml")
    if os.path.isfile(config):  # a FIFO would block
        with contextlib.suppress(OSError), open(config, "rb") as file:
            if file.read(len(_BEGINNING_OF_RUN_CONFIG)) == _BEGINNING_OF_RUN_CONFIG:
                return "a run"
    return None


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
                f"must contain str or Path, got {short_repr(path)}",
                argument="paths",
                remedy=IN_MEMORY,
            )
        several.append(checked_path("paths", path))
    return tuple(several)


def _expand(name: str, found: FoundFiles, format: str | None, field: str | None) -> list[str]:
    """Return the files that a path, glob, directory or URL stands for. Note the rest in `found`."""
    if is_url(name):
        urls = matching_urls(name)
        if not urls:
            raise MissingFileError(f"{name!r} matches no file")
        return urls
    try:
        mode = os.stat(name).st_mode
    except (FileNotFoundError, NotADirectoryError):
        if not glob.has_magic(name):
            remedy = IN_MEMORY if "\n" in name else ""
            raise MissingFileError(f"{name!r} does not exist", remedy=remedy) from None
        files = sorted(file for file in glob.glob(name, recursive=True) if os.path.isfile(file))
        if "**" in name:
            files = _without_skipped(files, name, found.skipped)
        if not files:
            raise MissingFileError(f"{name!r} matches no file") from None
        return files
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise InputError(
            f"must be paths, got {short_repr(name)}, which is too long for a path",
            argument="paths",
            remedy=IN_MEMORY,
        ) from None
    if stat.S_ISDIR(mode):
        return _files_in(name, found, format, field)
    if not stat.S_ISREG(mode):
        raise InputError(
            f"{name!r} is a pipe or a device, which cannot be read in chunks",
            remedy="save its content to a file first",
        )
    return [name]


def _without_skipped(files: list[str], pattern: str, skipped: dict[str, str]) -> list[str]:
    """Leave out the files in directories that a search does not enter."""
    num_named = _num_parts(pattern[: pattern.index("**")]) - 1  # parts that the user named
    known: dict[str, bool] = {}

    def is_skipped(directory: str) -> bool:
        if _num_parts(directory) <= num_named or not os.path.basename(directory):
            return False
        if directory not in known:
            above = is_skipped(os.path.dirname(directory))
            kind = None if above else _kind_of_skipped(directory)
            if kind is not None:
                skipped[directory] = kind
            known[directory] = above or kind is not None
        return known[directory]

    return [file for file in files if not is_skipped(os.path.dirname(file))]


def _num_parts(path: str) -> int:
    return path.replace(os.sep, "/").count("/") + 1


def _files_in(
    directory: str, found: FoundFiles, format: str | None, field: str | None
) -> list[str]:
    """Return the files with known endings in a directory and its subdirectories, sorted.

    Note in `found` what was left out.

    Raises:
        ValueError: If there are no such files.
    """
    files, single = [], []
    for folder, folders, names in os.walk(directory):
        entered = []
        for name in sorted(name for name in folders if not name.startswith(".")):
            kind = _kind_of_skipped(os.path.join(folder, name))
            if kind is None:
                entered.append(name)
            else:
                found.skipped[os.path.join(folder, name)] = kind
        folders[:] = entered
        for name in names:
            path = os.path.join(folder, name)
            if name.startswith("."):
                continue
            if not has_known_ending(name):
                found.endings[os.path.splitext(name)[1]] += 1
            elif os.path.isfile(path):
                if format is None and is_single_json(path, field):
                    single.append(path)
                else:
                    files.append(path)
            elif not os.path.exists(path):
                found.skipped[path] = "a link without a file"
    if not files:
        for path in single:
            detected_format(path)  # raises the error that says how to read it
        files, single = single, []  # files of one line, which need `field`
    if not files:
        raise InputError(
            f"{directory!r} is a directory without text files (.txt, .md, .jsonl, .csv, .parquet, "
            "...)",
            remedy="pass files or a glob",
        )
    found.skipped.update(dict.fromkeys(single, _SINGLE_JSON))
    return sorted(files)
