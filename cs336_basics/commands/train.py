"""`python -m cs336_basics.train`: text to tokenizer to token files to a trained model.

Beside the exit statuses of `_cli.py`: 130 and 143 after Ctrl-C and SIGTERM, when the run has saved
itself and can be resumed.
"""

from __future__ import annotations

from dataclasses import dataclass

from cs336_basics.commands._training_options import CommandLine, RunOptions, TrainingCommand


@dataclass(kw_only=True)
class Options(RunOptions):
    """Train a Transformer language model: text to tokenizer to token files to weights.

    Without options it trains a small model on a corpus that it generates itself. Options override
    the configuration file.
    """


def work(command: CommandLine) -> int:
    """Train; return the exit status."""
    from cs336_basics.commands._training import train  # it imports torch: help pages do without

    return train(command)


COMMAND = TrainingCommand(
    "train",
    Options,
    work,
    "train --data.train-path my.txt --name my",
    "train --config tinystories --fast auto",
    "train --resume runs/my-20260101-120000",
)
