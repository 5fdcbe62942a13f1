"""Folders of token files that several machines write. A folder becomes complete all at once.

| folder | unfinished | complete |
|---|---|---|
| directory | files in DIRECTORY.unfinished | one rename, to DIRECTORY |
| URL | files in the folder itself | a record, complete.json, is uploaded last |

Object stores cannot rename folders. Until the record exists, `download_token_files` refuses the
folder. The record lists the token files.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, TypeAlias

from cs336_basics._support.errors import InputError, MissingFileError, OutputExistsError
from cs336_basics._support.files import (
    check_has_no_links,
    new_directory,
    new_directory_name,
    remove,
    rename_directory,
)
from cs336_basics._support.messages import short_repr
from cs336_basics._support.reading import parse_json
from cs336_basics._support.urls import download, is_url, names_in, open_url, remove_url, uploaded
from cs336_basics.tokenizer.files.token_files import ids_are_intact, open_token_file, read_layout

UNFINISHED = ".unfinished"
"""Ending of the directory that contains the token files of an unfinished run."""

RECORD = "complete.json"
"""Name of the record in a folder at a URL."""

_LONGEST_RECORD = 64 << 20
_METADATA_READ_AHEAD = 1 << 16


def token_folder(path: str | os.PathLike[str]) -> Directory | UrlFolder:
    """Return the folder for a directory or a URL.

    Raises:
        FileExistsError: If the directory exists and is not empty, or the URL is complete.
        ValueError: If the URL is the address of a web page.
    """
    path = os.fspath(path)
    return UrlFolder(path) if is_url(path) else Directory(path)


class Directory:
    """A directory on a file system that all machines share.

    Attributes:
        path: Path of the directory while it is unfinished.
    """

    def __init__(self, path: str) -> None:
        self._target = new_directory_name(path)
        self._unfinished = self._target.with_name(self._target.name + UNFINISHED)
        self.path = str(self._unfinished)

    def create(self) -> None:
        """Create the folder if it is missing.

        Raises:
            ValueError: If the unfinished folder or a file in it is a symbolic link.
        """
        if self._unfinished.is_symlink():
            raise InputError(f"{self._unfinished} is a symbolic link", remedy="remove it")
        self._unfinished.mkdir(parents=True, exist_ok=True)
        check_has_no_links(self._unfinished)

    def names(self) -> list[str]:
        """Return the names of the files in the folder, without temporary files."""
        names = os.listdir(self._unfinished)
        return [name for name in names if not (name.startswith(".") and name.endswith(".tmp"))]

    def metadata(self, name: str) -> dict[str, Any]:
        """Return the metadata of a token file. A missing or damaged file raises an error."""
        return open_token_file(self._unfinished / name).metadata

    def ids_are_intact(self, name: str) -> bool:
        """Return whether the ids of a token file have their recorded hash."""
        return ids_are_intact(open_token_file(self._unfinished / name))

    def check_is_visible(self, name: str) -> None:
        """Raise FileNotFoundError if a file that another machine wrote is not visible here."""
        if not (self._unfinished / name).exists():
            raise MissingFileError(
                "a machine wrote this file, but it is not visible here",
                place=str(self._unfinished / name),
                remedy="choose a directory on a file system that all machines share",
            )

    def complete(self, names: list[str], information: dict[str, Any]) -> None:
        """Rename the directory, which makes it complete. Only `UrlFolder` uses the arguments."""
        for leftover in self._unfinished.glob(".*.tmp"):  # from tasks that were killed
            leftover.unlink(missing_ok=True)
        rename_directory(self._unfinished, self._target)

    def discard(self) -> None:
        """Remove the files of the folder."""
        remove(self._unfinished)


class UrlFolder:
    """A folder in an object store. It has the methods of `Directory`.

    Attributes:
        path: URL of the folder.
    """

    def __init__(self, url: str) -> None:
        self.path = url.rstrip("/")
        if RECORD in names_in(self.path):
            raise OutputExistsError(f"{self.path} is complete", remedy="choose another folder")

    def create(self) -> None:
        """Do nothing: in an object store, a folder exists as soon as it contains a file."""

    def names(self) -> list[str]:
        """Return the names of the files in the folder."""
        return names_in(self.path)

    def metadata(self, name: str) -> dict[str, Any]:
        """Return the metadata of a token file. A missing or damaged file raises an error."""
        url = f"{self.path}/{name}"
        with open_url(url, _METADATA_READ_AHEAD) as file:
            return read_layout(file, url, file.seek(0, os.SEEK_END)).metadata

    def ids_are_intact(self, name: str) -> bool:
        """Return True: the ids are compared with their hash when they are downloaded."""
        return True

    def check_is_visible(self, name: str) -> None:
        """Do nothing: an object that was uploaded is visible everywhere."""

    def complete(self, names: list[str], information: dict[str, Any]) -> None:
        """Upload the record, with the names of the token files. This makes the folder complete."""
        with uploaded(f"{self.path}/{RECORD}") as file:
            file.write_text(json.dumps({"files": names, **information}, indent=2), "utf-8")

    def discard(self) -> None:
        """Remove the files of the folder."""
        for name in self.names():
            remove_url(f"{self.path}/{name}")


TokenFolder: TypeAlias = Directory | UrlFolder


def download_token_files(url: str, directory: str | os.PathLike[str]) -> dict[str, Any]:
    """Download the token files that `encode_files_ray` wrote to a URL.

    Args:
        url: Folder of the token files.
        directory: New directory. It appears only when it contains all files.

    Returns:
        The record of the folder: files (names of the token files), and the information that
        `encode_files_ray` returned.

    Raises:
        FileNotFoundError: If the folder is unfinished.
        FileExistsError: If the directory exists and is not empty.
        ValueError: If the record or a token file is damaged, or a token file is from another run.
        OSError: If a file cannot be read or written.
    """
    url = url.rstrip("/")
    new_directory_name(directory)  # checks the directory
    try:
        with open_url(f"{url}/{RECORD}") as file:
            content = file.read(_LONGEST_RECORD)
    except FileNotFoundError:
        raise MissingFileError(
            f"{url} is unfinished: it has no {RECORD}",
            remedy="encode the text with Ray again to finish it",
        ) from None
    record: dict[str, Any] = parse_json(content, f"{url}/{RECORD}")
    names = record.get("files") if isinstance(record, dict) else None
    if not isinstance(names, list) or not all(_is_name(name) for name in names):
        raise InputError(
            f"files must be names of token files, got {short_repr(names)}", place=f"{url}/{RECORD}"
        )
    made_by = record.get("tokenizer_hash")
    if not isinstance(made_by, str):
        raise InputError(
            f"tokenizer_hash must be a str, got {short_repr(made_by)}", place=f"{url}/{RECORD}"
        )
    num_tokens = 0
    with new_directory(directory) as temporary:
        for name in names:
            download(f"{url}/{name}", temporary / name)
            try:
                # The file is closed at once, because Windows cannot rename open files.
                found = open_token_file(temporary / name, tokenizer_hash=made_by)
                if "ids_sha256" in found.metadata and not ids_are_intact(found):
                    raise InputError(
                        "damaged file: the ids do not have their recorded hash",
                        place=str(temporary / name),
                        remedy="encode the text again",
                    )
                num_tokens += len(found.tokens)
                del found
            except InputError as error:
                raise InputError(str(error).replace(str(temporary), url)) from error
        if num_tokens != record.get("num_tokens"):
            raise InputError(
                f"the token files have {num_tokens:,} tokens, but {RECORD} says "
                f"{short_repr(record.get('num_tokens'))}",
                place=url,
                remedy="encode the text again",
            )
    return record


def _is_name(name: object) -> bool:
    return isinstance(name, str) and re.fullmatch(r"[0-9]{5,9}\.npy", name) is not None
