"""Fetch a dataset: `python -m cs336_basics download tinystories`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from cs336_basics.datasets.fetch import fetch_split
from cs336_basics.datasets.registry import DATASETS, SPLITS


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, fetch, print; return the exit code."""
    options = _parser().parse_args(arguments)
    dataset = DATASETS[options.dataset]
    print(f"{dataset.name}: {dataset.description}; licence: {dataset.licence}")
    try:
        for split in SPLITS if options.split == "all" else (options.split,):
            path, fetched = fetch_split(
                dataset.name,
                split,
                options.data_dir,
                base_url=options.base_url,
                force=options.force,
                progress=True,
            )
            note = "" if fetched else " (was there already; --force fetches it again)"
            print(f"{path}  {path.stat().st_size:,} bytes{note}")
    except (ValueError, OSError) as error:
        print("error:", str(error).replace("\n", " "), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; no unfinished file was kept", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, DATASETS))
    parser = argparse.ArgumentParser(
        prog="python -m cs336_basics download",
        description="Fetch a dataset into the data directory, as plain text files.",
        epilog="datasets:\n"
        + "\n".join(
            f"  {d.name:<{width}}  {_size(d.name):>8}  {d.description}" for d in DATASETS.values()
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("dataset", choices=list(DATASETS), metavar="DATASET", help=" | ".join(DATASETS))
    add("--split", choices=[*SPLITS, "all"], default="all", help="which files (default: all)")
    add(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="where to put them (default: the environment's CS336_DATA, else data)",
    )
    add("--base-url", metavar="URL", help="a mirror: the folder in which the files lie")
    add("--force", action="store_true", help="fetch files that are there already")
    return parser


def _size(name: str) -> str:
    num_bytes = sum(file.num_bytes for file in DATASETS[name].files.values())
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.1f} MB"


if __name__ == "__main__":
    sys.exit(main())
