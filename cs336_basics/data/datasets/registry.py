"""The datasets by name: their files, and where these are stored.

The data directory is that of the environment variable `CS336_DATA`, else `data` in the current
directory. Files have the names that the course gives them, so existing downloads are found.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SPLITS = ("train", "valid")


@dataclass(frozen=True)
class DataFile:
    """One split of a dataset: a UTF-8 text with documents separated by `<|endoftext|>`."""

    name: str
    """Its file name in the data directory."""
    num_bytes: int
    """Size of the text in bytes."""
    sha256: str
    """SHA-256 of the text, decompressed."""
    repository: str | None = None
    """Dataset repository of the Hugging Face hub that has the file; None: the text is generated."""
    compressed: bool = False
    """Whether the repository has it as NAME.gz."""
    other_names: tuple[str, ...] = ()
    """Other file names of the text, or of an extract from it."""

    @property
    def download_name(self) -> str:
        """The file name in the repository."""
        return f"{self.name}.gz" if self.compressed else self.name

    def found_in(self, directory: Path) -> Path | None:
        """Return the file in a directory that has the text, or an extract; None: there is none."""
        paths = (directory / name for name in (self.name, *self.other_names))
        return next((path for path in paths if path.is_file()), None)


@dataclass(frozen=True)
class Dataset:
    """A named dataset: a line about it, its licence, and its files by split ("train", "valid")."""

    name: str
    description: str
    licence: str
    files: Mapping[str, DataFile]


_TINYSTORIES = "roneneldan/TinyStories"
_OWT = "stanford-cs336/owt-sample"

# The sizes and hashes of the downloads are those of the texts in November 2026: several public
# records of course work give them, and all agree.
DATASETS: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            name="sample",
            description="children's stories from the generator in this package; needs no network",
            licence="MIT, like this package",
            files={
                "train": DataFile(
                    "sample_train.txt",
                    10_000_881,
                    "66a7ac20e24779d176cb9ea77a1f7b4b5f188dd0c97f3687b6f0e58227f65c87",
                ),
                "valid": DataFile(
                    "sample_valid.txt",
                    500_690,
                    "b26bfd3c4700eb0228095884363c1b02a0e4e55ab1a1ebf93822f751216c727a",
                ),
            },
        ),
        Dataset(
            name="tinystories",
            description="stories by GPT-4 in the words of small children (Eldan and Li, 2023)",
            licence="CDLA-Sharing-1.0",
            files={
                "train": DataFile(
                    "TinyStoriesV2-GPT4-train.txt",
                    2_227_753_162,
                    "6418d412de72888f52b5142c761ac21a582f7d1166f0bfbdb5f03ccfdec90443",
                    _TINYSTORIES,
                    other_names=("tinystories_train.txt",),
                ),
                "valid": DataFile(
                    "TinyStoriesV2-GPT4-valid.txt",
                    22_502_601,
                    "6874bae9a4c1a4e7edcf0e53b86c17817e9cf881fc75ff2368da457b80c0585d",
                    _TINYSTORIES,
                    other_names=("tinystories_valid.txt",),
                ),
            },
        ),
        Dataset(
            name="owt",
            description="web pages: the sample of OpenWebText that the course uses",
            licence="CC0-1.0 for the collection; each page belongs to its author",
            files={
                "train": DataFile(
                    "owt_train.txt",
                    11_920_511_059,
                    "bbeb7f291a981ecfd5cf44b84d0f654b9e96c53dff99f2556b7d2cccaf8c1918",
                    _OWT,
                    compressed=True,
                ),
                "valid": DataFile(
                    "owt_valid.txt",
                    289_998_753,
                    "2406f278e71829d273b315e9b403285baea7022b26a96d2728dd8b776ea40660",
                    _OWT,
                    compressed=True,
                ),
            },
        ),
    )
}


def data_directory(data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return the data directory: `data_dir` if given, else `CS336_DATA`, else `data`."""
    return Path(data_dir if data_dir is not None else os.environ.get("CS336_DATA") or "data")


def find_split(name: str, split: str) -> DataFile:
    """Return the entry of one split of a dataset.

    Raises:
        ValueError: there is no such dataset or split; the message lists the known ones.
    """
    if name not in DATASETS:
        raise ValueError(f"there is no dataset {name!r}: choose one of {', '.join(DATASETS)}")
    if split not in SPLITS:
        raise ValueError(f"there is no split {split!r}: choose one of {', '.join(SPLITS)}")
    return DATASETS[name].files[split]


def dataset_path(name: str, split: str, data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return the text file of one split ("train", "valid") of a dataset.

    Raises:
        FileNotFoundError: it is not in the data directory; the message gives the command that
            fetches it.
        ValueError: there is no such dataset or split.
    """
    file = find_split(name, split)
    directory = data_directory(data_dir)
    if path := file.found_in(directory):
        return path
    command = f"python -m cs336_basics download {name}"
    if data_dir is not None:
        command += f" --data-dir {shlex.quote(str(data_dir))}"
    message = f"there is no {file.name} in {directory}"
    if (directory / f"{file.name}.gz").is_file():
        unpack = f"gunzip {shlex.quote(str(directory / file.name) + '.gz')}"
        raise FileNotFoundError(f"{message}, only a compressed one; unpack it with: {unpack}")
    raise FileNotFoundError(f"{message}; fetch it with: {command}")
