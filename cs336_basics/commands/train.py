"""`python -m cs336_basics.train`: text to tokenizer to token files to a trained model.

Beside the exit statuses of `_cli.py`: 130 and 143 after Ctrl-C and SIGTERM, when the run has saved
itself and can be resumed.
"""

from __future__ import annotations

from dataclasses import dataclass

from cs336_basics._support.validation import option
from cs336_basics.commands._cli import say
from cs336_basics.commands._training_options import CommandLine, RunOptions, TrainingCommand
from cs336_basics.training.config_files import config_with_origins


@dataclass(kw_only=True)
class Options(RunOptions):
    """Train a Transformer language model: text to tokenizer to token files to weights.

    Without options it trains a small model on a corpus that it generates itself. Options override
    the configuration file.
    """

    print_config: bool = option(
        "print all values of the configuration, each with its origin, and stop", False, rare=True
    )


def work(command: CommandLine) -> int:
    """Train; return the exit status."""
    if command.options.print_config:
        say(config_with_origins(command.config, command.origins))
        return 0
    from cs336_basics.commands._training import train  # it imports torch: help pages do without

    return train(command)


COMMAND = TrainingCommand(
    "train",
    Options,
    work,
    "train --data.train-path my.txt --name my",
    "train --config tinystories --fast auto",
    "train --resume runs/my-20260101-120000",
    "train --config my.yaml --max-steps 2000 --print-config",
)
