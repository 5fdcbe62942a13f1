"""`python -m cs336_basics.train`: text to tokenizer to token files to a trained model.

Beside the exit statuses of `_cli.py`: 130 and 143 after Ctrl-C and SIGTERM, when the run has saved
itself and can be resumed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from cs336_basics.commands._cli import run_command
from cs336_basics.commands._options import TrainParser, read_command_line


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = build_parser()

    def work(options: argparse.Namespace) -> int:
        command = read_command_line(options)
        # Imported here: it imports torch, and help pages do without.
        from cs336_basics.commands._training import train

        return train(command)

    return run_command(parser, work, arguments)


def build_parser() -> TrainParser:
    """Return the options of the command."""
    return TrainParser(
        "train",
        "Train a Transformer language model: text to tokenizer to token files to weights. Without "
        "options it trains a small model on a corpus that it generates itself. Options override "
        "the configuration file.",
        examples=[
            "train",
            "train --config tinystories --fast auto",
            "train --data.train-path my.txt --name my",
            "train --resume runs/my-20260101-120000",
        ],
        interrupted="the run had not begun",
    )


if __name__ == "__main__":
    sys.exit(main())
