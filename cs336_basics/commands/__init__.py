"""The command line: `python -m cs336_basics COMMAND`, or `cs336 COMMAND`.

A command parses its options, makes one library call, and prints the result. To add a command, add a
line to COMMANDS and a module of the same name (`train_bpe.py` for `train-bpe`) with a dataclass of
options, a function that does the work, and `COMMAND`, a `Command` from `_options.py`.

The rest of the library does not import this package.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cs336_basics.commands._options import Command

# OpenMP reads these variables when torch loads it. By default, waiting threads spin for long, which
# slows everything down when other programs are running. PASSIVE lets them sleep at once. GNU's
# OpenMP, which torch uses on Linux, is told to spin for some tens of microseconds first, because
# most waits of a small model are shorter (benchmarks/NOTES.md).
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

PROGRAM = "cs336"
"""Name of the console script. Error messages start with it."""

INVOCATION = "python -m cs336_basics"
"""Start of the command lines in examples and messages. It works without the console script."""

COMMANDS = {
    "datasets": "list the datasets, their licenses and local files",
    "download": "fetch a dataset, or generate the sample corpus",
    "train-bpe": "train a BPE tokenizer on text",
    "explain": "show the trainers' data structures as your words are merged",
    "compare": "compare tokenizers: bytes per token, speed, longest tokens",
    "report": "write a page that compares tokenizers or shows a run",
    "tokenize": "show the tokens of a text in color, or their ids, counts or merges",
    "playground": "explore tokens, merges and training on a page in your browser",
    "tokens": "count how often each token occurs in text",
    "prune": "shrink a tokenizer to the most frequent tokens in a text",
    "encode": "encode text into a token file",
    "decode": "turn ids back into text",
    "train": "train a language model on text or token files",
    "estimate": "estimate the memory and time of a run, or of preparing a corpus",
    "plot": "plot the learning curves of runs",
    "generate": "generate text with a trained model",
    "evaluate": "measure the loss and the bits per byte of models on text",
    "export": "convert a tokenizer, model or token file to another format",
    "experiments": "run the course's experiments and write a report",
    "completion": "print a shell completion script",
}
"""Every command and its one-line summary, in the usual order of use."""


def find_command(name: str) -> Command:
    """Import a command, which is one of COMMANDS."""
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    command: Command = module.COMMAND
    return command
