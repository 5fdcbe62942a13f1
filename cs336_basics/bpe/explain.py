"""Text drawings of each trainer's data before a merge, for a few words.

`python -m cs336_basics explain` prints these drawings. docs/stages.md shows them for the course's
example.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from cs336_basics.bpe import TRAINERS, get_trainer
from cs336_basics.bpe.drawing import Moment, pair_text


def explain(words: Iterable[bytes], num_merges: int = 2, stage: str | None = None) -> str:
    """Return the merges, followed by the drawings of one or all trainers.

    Args:
        words: Words of a text, including repetitions.
        num_merges: Number of merges before the drawings. Fewer are made if no pair is left.
        stage: A name in TRAINERS. Defaults to all trainers that are built.

    Raises:
        ValueError: If no trainer is named `stage`; see also `Moment`.
        ImportError: If the trainer is not built.
    """
    moment = Moment(Counter(words), num_merges)
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
    return get_trainer(stage)().draw(Moment(word_counts, num_merges))
