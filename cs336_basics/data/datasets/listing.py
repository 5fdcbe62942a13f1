"""What is known of the datasets, and what of them is in the data directory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cs336_basics._support.files import sha256_file
from cs336_basics.data.datasets.fetch import part_of
from cs336_basics.data.datasets.registry import DATASETS, DataFile, data_directory


@dataclass(frozen=True)
class FileStatus:
    """One split of a dataset, and its file in a data directory.

    Attributes:
        dataset, split: as in `DATASETS`.
        licence, repository, sha256: of the dataset or its text; see `DataFile`.
        num_bytes: size of the text.
        path: the file that has the text, or an extract from it; None if there is none.
        found_bytes: size of that file, or of an unfinished download; 0 if there is neither.
        verified: whether the SHA-256 of the file is that of the text; None if it was not computed.
        note: the state in words, such as "missing".
    """

    dataset: str
    split: str
    licence: str
    repository: str | None
    sha256: str
    num_bytes: int
    path: str | None
    found_bytes: int
    verified: bool | None
    note: str


def list_files(
    data_dir: str | os.PathLike[str] | None = None, *, verify: bool = False
) -> list[FileStatus]:
    """Return the status of every split of every dataset.

    Args:
        data_dir: the data directory; None: see `data_directory`. It need not exist.
        verify: compute the SHA-256 of the files that are there, about a second for each gigabyte.

    Raises:
        OSError: a file cannot be read.
    """
    directory = data_directory(data_dir)
    statuses = []
    for dataset in DATASETS.values():
        for split, file in dataset.files.items():
            path = file.found_in(directory)
            verified = None
            if verify and path is not None and path.name == file.name:
                verified = sha256_file(path) == file.sha256
            found, note = _state(file, path, directory, verified)
            statuses.append(
                FileStatus(
                    dataset=dataset.name,
                    split=split,
                    licence=dataset.licence,
                    repository=file.repository,
                    sha256=file.sha256,
                    num_bytes=file.num_bytes,
                    path=None if path is None else os.fspath(path),
                    found_bytes=found,
                    verified=verified,
                    note=note,
                )
            )
    return statuses


def _state(
    file: DataFile, path: Path | None, directory: Path, verified: bool | None
) -> tuple[int, str]:
    """Return how many bytes of a text are there, and the state in words."""
    packed, part = directory / f"{file.name}.gz", part_of(directory / file.download_name)
    if path is not None:
        found = path.stat().st_size
        if path.name != file.name:
            return found, f"{path.name} is present, {found:,} bytes"
        if found != file.num_bytes:
            return found, f"present, but a different text: {found:,} bytes"
        if verified is None:
            return found, "present"
        other = "present, but a different text: its SHA-256 differs"
        return found, "present, verified" if verified else other
    if packed.is_file():
        return packed.stat().st_size, f"only {packed.name} is present"
    if part.is_file():
        found = part.stat().st_size
        return found, f"the download was interrupted after {found:,} bytes"
    return 0, "missing"
