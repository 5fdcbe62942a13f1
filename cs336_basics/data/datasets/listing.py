"""What is known of the datasets, and what of them is in the data directory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cs336_basics._support.files import sha256_file
from cs336_basics.data.datasets.fetch import DownloadError, check_against_record, part_of
from cs336_basics.data.datasets.registry import DATASETS, DataFile, data_directory


@dataclass(frozen=True)
class FileStatus:
    """One split of a dataset, and its file in a data directory.

    Attributes:
        dataset, split: as in `DATASETS`.
        licence, url, sha256: of the dataset or its text; the url of a text that is generated is
            None.
        num_bytes: size of the text.
        path: the file that has the text, or an extract from it; None if there is none.
        found_bytes: size of that file, or of an unfinished download; 0 if there is neither.
        verified: whether the SHA-256 of the file is that of the text; None if it was not computed.
        note: the state in words, such as "missing".
    """

    dataset: str
    split: str
    licence: str
    url: str | None
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
    return [
        _status(dataset.name, split, file, directory, verify)
        for dataset in DATASETS.values()
        for split, file in dataset.files.items()
    ]


def _status(dataset: str, split: str, file: DataFile, directory: Path, verify: bool) -> FileStatus:
    path = file.found_in(directory)
    found, verified = 0, None
    if path is not None:
        found = path.stat().st_size
        if verify and path.name == file.name:
            verified = found == file.num_bytes and sha256_file(path) == file.sha256
        note = _note_on(file, path, found, verified)
    else:
        found, note = _note_without(file, directory)
    return FileStatus(
        dataset=dataset,
        split=split,
        licence=DATASETS[dataset].licence,
        url=file.url,
        sha256=file.sha256,
        num_bytes=file.num_bytes,
        path=None if path is None else os.fspath(path),
        found_bytes=found,
        verified=verified,
        note=note,
    )


def _note_on(file: DataFile, path: Path, found: int, verified: bool | None) -> str:
    """Return the state of a file that is present."""
    if path.name != file.name:
        return f"{path.name} is present, {found:,} bytes"
    try:
        check_against_record(path)
    except DownloadError as error:
        return str(error)
    if found != file.num_bytes:
        return f"present, but a different text: {found:,} bytes"
    if verified is None:
        return "present"
    return "present, verified" if verified else "present, but a different text: its SHA-256 differs"


def _note_without(file: DataFile, directory: Path) -> tuple[int, str]:
    """Return what there is of a file that is missing: bytes, and the state."""
    packed = directory / f"{file.name}.gz"
    if packed.is_file():
        return packed.stat().st_size, f"only {packed.name} is present"
    part = part_of(directory / file.download_name)
    if part.is_file():
        found = part.stat().st_size
        is_text = file.download_name == file.name
        of_all = f" of {file.num_bytes:,}" if is_text else " of the .gz file"
        return found, f"the download was interrupted after {found:,} bytes{of_all}"
    return 0, "missing"
