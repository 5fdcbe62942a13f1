"""`python -m cs336_basics COMMAND`: every command of the package."""

from __future__ import annotations

import importlib
import sys

COMMANDS = (
    "download",
    "train-bpe",
    "encode",
    "train",
    "estimate",
    "plot",
    "generate",
    "experiments",
)


def main() -> int:
    """Run the command that the first argument names and return its exit status."""
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print(f"usage: python -m cs336_basics {{{','.join(COMMANDS)}}} ...", file=sys.stderr)
        return 2
    name = sys.argv[1].replace("-", "_")
    module = importlib.import_module(f"cs336_basics.commands.{name}")
    return int(module.main(sys.argv[2:]))


if __name__ == "__main__":
    sys.exit(main())
