"""`python -m cs336_basics explain`: show the trainers' data structures as words are merged."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated

from cs336_basics._support.validation import Amount, Checked, one_of, option
from cs336_basics.bpe import TRAINERS
from cs336_basics.bpe.drawing import MOST_BYTES
from cs336_basics.bpe.explain import explain as drawings
from cs336_basics.bpe.explain import explain_superwords
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
    superwords_after: Amount | None = option(
        "learn superwords after this number of merges within words: the text is a line, and "
        "--merges may join its words",
        None,
        metavar="N",
    )


def explain(options: Options) -> None:
    """Print the drawings."""
    text = " ".join(options.words)
    if options.superwords_after is not None:
        line = os.fsencode(" ".join(text.split())).decode(errors="replace")
        say(explain_superwords(line, options.superwords_after, options.merges, options.trainer))
        return
    # Invalid UTF-8 in arguments arrives as surrogates. fsencode restores the bytes.
    words = map(os.fsencode, text.split())
    say(drawings(words, options.merges, options.trainer))


COMMAND = Command(
    "explain",
    Options,
    explain,
    'explain "low lower widest"',
    'explain "low low low lower widest" --trainer heap --merges 3',
    'explain "in the end of the day, at the end" --superwords-after 8 --trainer naive',
)
