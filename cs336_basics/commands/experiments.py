"""`python -m cs336_basics experiments`: the experiments of the course, with a report.

Every experiment is a run that `python -m cs336_basics.train` could train as well: report.md names
the options.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from cs336_basics.commands._cli import complain, run_command, say
from cs336_basics.commands._parser import Parser, add_device, add_num_workers
from cs336_basics.experiments.plan import SCALES
from cs336_basics.training.allocator import keep_freed_memory
from cs336_basics.training.session import TrainingInterrupted

_AGAIN = "the same command continues from there"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = build_parser()

    def work(options: argparse.Namespace) -> int:
        if options.dataset is not None and vars(options)["data.train_path"] is not None:
            raise parser.usage_error("--dataset and --train-path both name a text: give one")
        return _experiment(options)

    return run_command(parser, work, arguments)


def build_parser() -> Parser:
    """Return the options of the command."""
    parser = Parser(
        "experiments",
        "Run the experiments of the course, learning rates, batch sizes and ablations, and write a "
        "report with learning curves. After an interruption the same command continues; "
        "report.md covers the runs so far.",
        examples=[
            "experiments --scale cpu",
            "experiments --scale cpu --train-path my.txt --out experiments/my",
            "experiments --scale course --device cuda",
        ],
        interrupted=_AGAIN,
    )
    add = parser.add
    add(
        "--scale",
        "size of the runs: cpu takes two hours on two cores, course (the sizes of CS336) is for a "
        "GPU, test takes seconds",
        choices=SCALES,
        required=True,
        metavar="NAME",
    )
    add("--out", "directory to write (default: experiments/SCALE)", type=Path, metavar="DIR",
        output=True)  # fmt: skip
    add(
        "--dataset",
        "sample, tinystories or owt (default: that of the scale)",
        choices=("sample", "tinystories", "owt"),
        metavar="NAME",
    )
    add("--train-path", "your own training text", dest="data.train_path", metavar="FILE")
    add(
        "--valid-path",
        "validation text (default: the end of the training text)",
        dest="data.valid_path",
        metavar="FILE",
    )
    add("--field", "field of JSON lines that holds the text", dest="data.field", metavar="NAME")
    add("--column", "column of Parquet and Arrow files that holds the text", dest="data.column",
        metavar="NAME")  # fmt: skip
    add_device(parser)
    add_num_workers(parser, "threads")
    return parser


def _experiment(options: argparse.Namespace) -> int:
    """Run the experiments; return the exit status."""
    from cs336_basics.experiments.runner import (
        run_experiments,  # needs torch; help pages do without
    )

    given = vars(options)
    values = {
        "device": options.device,
        "data.dataset": options.dataset,
        "data.train_path": given["data.train_path"],
        "data.valid_path": given["data.valid_path"],
        "data.field": given["data.field"],
        "data.column": given["data.column"],
        "num_workers": options.num_workers,
    }
    values = {key: value for key, value in values.items() if value is not None}
    out = options.out or Path("experiments") / options.scale
    keep_freed_memory()
    try:
        run_experiments(SCALES[options.scale], out, values, report=say)
    except TrainingInterrupted as stop:
        complain(f"cs336 experiments: {stop}; {_AGAIN}")
        return 128 + stop.signal_number
    return 0


if __name__ == "__main__":
    sys.exit(main())
