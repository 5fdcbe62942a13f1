"""`python -m cs336_basics datasets list`: the datasets, their licences, and what is there."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from cs336_basics.commands._cli import run_command, say
from cs336_basics.commands._parser import Parser, add_format, choice
from cs336_basics.data.datasets.listing import FileStatus, list_files
from cs336_basics.data.datasets.registry import DATASETS, data_directory


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    return run_command(build_parser(), _list, arguments)


def build_parser() -> Parser:
    """Return the options of the command."""
    parser = Parser(
        "datasets",
        "List the datasets that download knows: licences, sizes, and what is in the data "
        "directory.",
        examples=[
            "datasets list",
            "datasets list --verify --data-dir /data",
            "datasets list --format json",
        ],
    )
    parser.add("action", "list", type=choice(["list"]), default="list", metavar="list")
    parser.add(
        "--data-dir",
        "directory of the files (default: $CS336_DATA, or data)",
        type=Path,
        metavar="DIR",
    )
    parser.add("--verify", "compare the SHA-256 of the files that are there", action="store_true")
    add_format(parser)
    return parser


def _list(options: argparse.Namespace) -> None:
    """Print the datasets."""
    files = list_files(options.data_dir, verify=options.verify)
    if options.format == "json":
        say(json.dumps([dataclasses.asdict(file) for file in files], indent=2))
        return
    for dataset in DATASETS.values():
        say(f"{dataset.name}: {dataset.description}")
        say(f"  licence: {dataset.licence}")
        for file in files:
            if file.dataset == dataset.name:
                say(f"  {_line(file)}")
    say(f"data directory: {data_directory(options.data_dir)}")


def _line(file: FileStatus) -> str:
    name = DATASETS[file.dataset].files[file.split].name
    return f"{file.split:<6} {name:<29}{f'{file.num_bytes:,} bytes':>24}  {file.note}"


if __name__ == "__main__":
    sys.exit(main())
