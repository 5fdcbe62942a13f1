"""`python -m cs336_basics datasets list`: list the datasets, licenses and local files."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cs336_basics._support.validation import Checked, option
from cs336_basics.commands._cli import say
from cs336_basics.commands._options import DATA_DIR, Command
from cs336_basics.data.datasets.listing import FileStatus, list_files
from cs336_basics.data.datasets.registry import DATASETS, data_directory


@dataclass(kw_only=True)
class Options(Checked):
    """List the datasets available for download, with their licenses, sizes and local state."""

    action: Literal["list"] = option("list", "list", metavar="ACTION", positional=True)
    data_dir: Path | None = DATA_DIR
    verify: bool = option("check the SHA-256 of local files", False)
    format: Literal["table", "json"] = option("output format", "table")


def list_datasets(options: Options) -> None:
    """Print the datasets."""
    files = list_files(options.data_dir, verify=options.verify)
    if options.format == "json":
        say(json.dumps([dataclasses.asdict(file) for file in files], indent=2))
        return
    for dataset in DATASETS.values():
        say(f"{dataset.name}: {dataset.description}")
        say(f"  license: {dataset.license}")
        for file in files:
            if file.dataset == dataset.name:
                say(f"  {_line(file)}")
    say(f"data directory: {data_directory(options.data_dir)}")


def _line(file: FileStatus) -> str:
    name = DATASETS[file.dataset].files[file.split].name
    return f"{file.split:<6} {name:<29}{f'{file.num_bytes:,} bytes':>24}  {file.note}"


COMMAND = Command(
    "datasets",
    Options,
    list_datasets,
    "datasets list",
    "datasets list --verify --data-dir /data",
    "datasets list --format json",
)
