"""The command lines of the package: `python -m cs336_basics COMMAND`, or `cs336 COMMAND`.

A command reads its options, makes one call of the library, and prints lines. To add one, add a line
to COMMANDS and a file with its name (`train-bpe` is `train_bpe.py`) that has a dataclass of its
options, a function that does the work, and `COMMAND`, a `Command` of `_options.py`.

Nothing in the library imports this package.
"""

from __future__ import annotations

import os

# OpenMP reads this when torch loads it. Threads that wait for each other then sleep. Spinning, the
# default, gains little on idle cores and costs much where other programs use the cores too.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

PROGRAM = "cs336"
"""The console script; error messages begin with it."""

INVOCATION = "python -m cs336_basics"
"""The form of a command that always works, installed or not; examples and advice use it."""

COMMANDS = {
    "datasets": "list the datasets, their licences, and what is there",
    "download": "fetch a dataset, or generate the sample corpus",
    "train-bpe": "train a BPE tokenizer on text",
    "explain": "draw what the trainers hold while they merge your words",
    "compare": "compare tokenizers: bytes per token, speed, longest tokens",
    "tokens": "count how often each token occurs in text",
    "prune": "make a tokenizer smaller, by what occurs in text",
    "encode": "encode text into a token file",
    "decode": "turn ids back into text",
    "train": "train a language model, from text or from token files",
    "estimate": "estimate the memory and time of a training run",
    "plot": "plot the learning curves of runs",
    "generate": "generate text with a trained model",
    "export": "write a tokenizer or a model in another library's format",
    "experiments": "run the experiments of the course and report them",
    "completion": "print the completion script of a shell",
}
"""Every command, in the usual order of use, with the line that the list of commands shows."""
