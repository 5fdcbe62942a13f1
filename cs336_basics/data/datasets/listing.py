"""List the datasets' files, and their state in the data directory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cs336_basics._support.files import sha256_file
from cs336_basics.data.datasets.fetch import part_of
from cs336_basics.data.datasets.registry import DATASETS, DataFile, data_directory


@dataclass(frozen=True)
class FileStatus:
    """One split of a dataset, and the state of its file in a data directory.

    Attributes:
        dataset: Name of the dataset.
        split: Name of the split, "train" or "valid".
        license: License of the dataset.
        repository: Repository on the Hugging Face hub. None for the generated sample.
        sha256: Expected SHA-256 of the text.
        num_bytes: Expected size of the text.
        path: Path of the local file with the text or an extract from it, or None.
        found_bytes: Size of the local file or of an unfinished download, or 0.
        verified: Whether the SHA-256 of the file is correct. None if it was not computed.
        note: Description of the state, such as "missing".
    """

    dataset: str
    split: str
    license: str
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
        data_dir: Data directory, which does not need to exist. Defaults to the directory that
            `data_directory` returns.
        verify: Whether to verify the SHA-256 of local files, which takes about a second per GB.

    Raises:
        OSError: If a file cannot be read.
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
                    license=dataset.license,
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
    """Return the number of bytes of a text that are stored locally, and a note on its state."""
    packed, part = directory / f"{file.name}.gz", part_of(directory / file.download_name)
    if path is not None:
        found = path.stat().st_size
        if path.name != file.name:
            return found, f"{path.name} is present, {found:,} bytes"
        if found != file.num_bytes:
            return found, f"present, but with the wrong size: {found:,} bytes"
        if verified is None:
            return found, "present"
        other = "present, but with the wrong SHA-256"
        return found, "present, verified" if verified else other
    if packed.is_file():
        return packed.stat().st_size, f"only {packed.name} is present"
    if part.is_file():
        found = part.stat().st_size
        return found, f"download interrupted after {found:,} bytes"
    return 0, "missing"
