"""`python -m cs336_basics download`: download a dataset into the data directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cs336_basics._support.validation import Checked, one_of, option
from cs336_basics.commands._cli import say
from cs336_basics.commands._options import DATA_DIR, Command
from cs336_basics.data.datasets.fetch import fetch_split
from cs336_basics.data.datasets.registry import DATASETS, SPLITS


def _size(name: str) -> str:
    num_bytes = sum(file.num_bytes for file in DATASETS[name].files.values())
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.1f} MB"


@dataclass(kw_only=True)
class Options(Checked):
    """Download a dataset into the data directory, as plain text files.

    Interrupted downloads are resumed, and the SHA-256 of each file is verified.
    """

    dataset: Annotated[str, one_of(DATASETS)] = option(
        "; ".join(f"{name} ({_size(name)})" for name in DATASETS),
        metavar="DATASET",
        positional=True,
    )
    split: Literal["train", "valid", "all"] = option("part of the dataset", "all")
    data_dir: Path | None = DATA_DIR
    from_: str | None = option(
        "directory or URL with the files (default: $HF_ENDPOINT, or the Hugging Face hub)",
        None,
        metavar="DIR|URL",
        argument="source",
    )
    force: bool = option("download existing files again", False)


def download(options: Options) -> None:
    """Download the files and print their paths."""
    dataset = DATASETS[options.dataset]
    say(f"{dataset.name}: {dataset.description}; license: {dataset.license}")
    for split in SPLITS if options.split == "all" else (options.split,):
        path, fetched = fetch_split(
            dataset.name,
            split,
            options.data_dir,
            source=options.from_,
            force=options.force,
            progress=True,
        )
        note = "" if fetched else " (exists; --force downloads it again)"
        say(f"{path}  {path.stat().st_size:,} bytes{note}")


COMMAND = Command(
    "download",
    Options,
    download,
    "download tinystories",
    "download owt --split valid --data-dir /data",
    "download tinystories --from /mnt/usb",
    "download sample",
)
