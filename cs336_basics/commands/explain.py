"""`python -m cs336_basics explain`: what the trainers hold while they merge your words."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated

from cs336_basics._support.validation import Amount, Checked, one_of, option
from cs336_basics.bpe import TRAINERS
from cs336_basics.bpe.explain import MOST_BYTES
from cs336_basics.bpe.explain import explain as drawings
from cs336_basics.commands._cli import say
from cs336_basics.commands._options import Command, Several


@dataclass(kw_only=True)
class Options(Checked):
    """Draw what the trainers hold while they merge your words, as docs/stages.md does."""

    words: Several = option(
        f"words, split at white space; of at most {MOST_BYTES} bytes, repetitions not counted",
        metavar="WORDS",
        positional=True,
    )
    trainer: Annotated[str | None, one_of(TRAINERS)] = option(
        f"one of {', '.join(TRAINERS)} (default: each that is built)", None, metavar="NAME"
    )
    merges: Amount = option("merges before the moment that is drawn", 2)


def explain(options: Options) -> None:
    """Print the drawings."""
    # (Bytes of the command line that are not UTF-8 are surrogates here.)
    words = map(os.fsencode, " ".join(options.words).split())
    say(drawings(words, options.merges, options.trainer))


COMMAND = Command(
    "explain",
    Options,
    explain,
    'explain "low lower widest"',
    'explain "low low low lower widest" --trainer heap --merges 3',
)
