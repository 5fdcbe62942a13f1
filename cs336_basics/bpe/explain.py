"""Text drawings of each trainer's data before a merge, for a few words.

`python -m cs336_basics explain` prints these drawings. docs/stages.md shows them for the course's
example.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from itertools import islice

from cs336_basics._support.errors import InputError
from cs336_basics.bpe import TRAINERS, get_trainer
from cs336_basics.bpe.drawing import MOST_BYTES, Moment, pair_text, symbol_text
from cs336_basics.bpe.reference import split_bytes
from cs336_basics.bpe.rules import Rules
from cs336_basics.bpe.v1_naive import NaiveTrainer


def explain(words: Iterable[bytes], num_merges: int = 2, stage: str | None = None) -> str:
    """Return the merges, followed by the drawings of one or all trainers.

    Args:
        words: Words of a text, including repetitions.
        num_merges: Number of merges before the drawings. Fewer are made if no pair is left.
        stage: A name in TRAINERS. Defaults to all trainers that are built.

    Raises:
        ValueError: If no trainer is named `stage`; see also `moment_after`.
        ImportError: If the trainer is not built.
    """
    moment = moment_after(Counter(words), num_merges)
    shown = "".join(f" {pair_text(pair)}" for pair in moment.merges)
    ended = "" if moment.best else "; no pair is left"
    parts = [f"merges:{shown or ' none'}{ended}"]
    built = [name for name, trainer in TRAINERS.items() if trainer.is_built]
    for name in built if stage is None else [stage]:
        parts += [name, get_trainer(name)().draw(moment)]
    return "\n\n".join(parts)


def draw(stage: str, word_counts: Mapping[bytes, int], num_merges: int) -> str:
    """Return a drawing of one trainer's data; see `explain`.

    Args:
        stage: A name in TRAINERS.
        word_counts: Mapping from words to counts.
        num_merges: Number of merges before the drawing.
    """
    return get_trainer(stage)().draw(moment_after(word_counts, num_merges))


def moment_after(word_counts: Mapping[bytes, int], num_merges: int) -> Moment:
    """Return the words after some merges, learned with the default options of a trainer.

    Args:
        word_counts: Mapping from words to counts. The words must have at most MOST_BYTES bytes in
            total.
        num_merges: Number of merges. Fewer are made if no pair is left.

    Raises:
        ValueError: If there are no words, or they have too many bytes.
    """
    num_bytes = sum(map(len, word_counts))
    if not num_bytes:
        raise InputError("must not be empty", argument="words", remedy="try 'low lower widest'")
    if num_bytes > MOST_BYTES:
        longest = symbol_text(max(word_counts, key=len)[:20])
        raise InputError(
            f"the distinct words must have at most {MOST_BYTES} bytes in total, got "
            f"{num_bytes:,} (the longest word starts with {longest})"
        )
    rules = Rules(num_merges)
    words = [split_bytes(word) for word in word_counts]
    learned = NaiveTrainer().learn(words, list(word_counts.values()), rules, nullcontext)
    merges = [pair for pair, *_ in islice(learned, num_merges)]
    best = next((pair for pair, *_ in learned), None)
    return Moment(word_counts, rules, merges, best)
