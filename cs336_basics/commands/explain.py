"""`python -m cs336_basics explain`: show the trainers' data structures as words are merged."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated

from cs336_basics._support.validation import Amount, Checked, one_of, option
from cs336_basics.bpe import TRAINERS
from cs336_basics.bpe.drawing import MOST_BYTES
from cs336_basics.bpe.explain import explain as drawings
from cs336_basics.commands._cli import say
from cs336_basics.commands._options import Command, Several


@dataclass(kw_only=True)
class Options(Checked):
    """Draw the trainers' data structures while your words are merged, as in docs/stages.md."""

    words: Several = option(
        f"words, separated by spaces; at most {MOST_BYTES} bytes of distinct words",
        metavar="WORDS",
        positional=True,
    )
    trainer: Annotated[str | None, one_of(TRAINERS)] = option(
        f"one of {', '.join(TRAINERS)} (default: every one that is built)", None, metavar="NAME"
    )
    merges: Amount = option("number of merges to apply before drawing", 2)


def explain(options: Options) -> None:
    """Print the drawings."""
    # Invalid UTF-8 in arguments arrives as surrogates. fsencode restores the bytes.
    words = map(os.fsencode, " ".join(options.words).split())
    say(drawings(words, options.merges, options.trainer))


COMMAND = Command(
    "explain",
    Options,
    explain,
    'explain "low lower widest"',
    'explain "low low low lower widest" --trainer heap --merges 3',
)
