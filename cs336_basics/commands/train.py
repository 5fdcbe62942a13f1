"""`python -m cs336_basics.train`: train a tokenizer and a language model on text.

After Ctrl-C (exit status 130), SIGTERM (143) or SIGHUP (129), a checkpoint is saved and the run can
be resumed.
"""

from __future__ import annotations

from dataclasses import dataclass

from cs336_basics._support.validation import option
from cs336_basics.commands._cli import say
from cs336_basics.commands._training_options import CommandLine, RunOptions, TrainingCommand
from cs336_basics.training.config_files import config_with_origins


@dataclass(kw_only=True)
class Options(RunOptions):
    """Train a tokenizer and a Transformer language model on text.

    Without options, a small model is trained on a generated sample corpus. Options override the
    configuration file.
    """

    print_config: bool = option(
        "print every configuration value and its origin, and exit", False, rare=True
    )


def work(command: CommandLine) -> int:
    """Train, and return the exit status."""
    if command.options.print_config:
        say(config_with_origins(command.config, command.origins))
        return 0
    from cs336_basics.commands._training import train  # imports torch, which help pages do not need

    return train(command)


COMMAND = TrainingCommand(
    "train",
    Options,
    work,
    "train --data.train-path my.txt --name my",
    "train --config tinystories --fast auto",
    "train --resume runs/my-20260101-120000",
    "train --config my.yaml --max-steps 2000 --print-config",
    uses_torch=True,
)
