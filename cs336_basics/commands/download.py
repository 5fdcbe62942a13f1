"""`python -m cs336_basics download`: fetch a dataset into the data directory."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from cs336_basics.commands._cli import run_command, say
from cs336_basics.commands._parser import Parser, choice
from cs336_basics.data.datasets.fetch import fetch_split
from cs336_basics.data.datasets.registry import DATASETS, SPLITS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    return run_command(build_parser(), _download, arguments)


def build_parser() -> Parser:
    """Return the options of the command."""
    parser = Parser(
        "download",
        "Fetch a dataset into the data directory, as plain text files. An interrupted download is "
        "continued, and the text is checked by its SHA-256.",
        examples=[
            "download tinystories",
            "download owt --split valid --data-dir /data",
            "download tinystories --from /mnt/usb",
            "download sample",
        ],
        interrupted="run the same command again; a download continues where it stopped",
    )
    sizes = "; ".join(f"{name} ({_size(name)})" for name in DATASETS)
    parser.add("dataset", sizes, required=True, type=choice(DATASETS), metavar="DATASET")
    parser.add(
        "--split",
        f"{', '.join(SPLITS)} or all",
        choices=[*SPLITS, "all"],
        default="all",
        metavar="NAME",
    )
    parser.add(
        "--data-dir",
        "directory of the files (default: $CS336_DATA, or data)",
        type=Path,
        metavar="DIR",
        output=True,
    )
    parser.add(
        "--from",
        "directory that has the files, or the URL of one (default: the Hugging Face hub, or "
        "$HF_ENDPOINT)",
        dest="source",
        metavar="DIR|URL",
    )
    parser.add("--force", "fetch files that exist", action="store_true")
    return parser


def _download(options: argparse.Namespace) -> None:
    """Fetch the files and print where they are."""
    dataset = DATASETS[options.dataset]
    say(f"{dataset.name}: {dataset.description}; licence: {dataset.licence}")
    for split in SPLITS if options.split == "all" else (options.split,):
        path, fetched = fetch_split(
            dataset.name,
            split,
            options.data_dir,
            source=options.source,
            force=options.force,
            progress=True,
        )
        note = "" if fetched else " (exists; --force fetches it again)"
        say(f"{path}  {path.stat().st_size:,} bytes{note}")


def _size(name: str) -> str:
    num_bytes = sum(file.num_bytes for file in DATASETS[name].files.values())
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.1f} MB"


if __name__ == "__main__":
    sys.exit(main())
