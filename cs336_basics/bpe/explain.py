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
from cs336_basics.bpe.limits import Limits
from cs336_basics.bpe.rules import Rules
from cs336_basics.bpe.starting_vocabulary import BYTES, StartingVocabulary
from cs336_basics.bpe.superwords import MAX_WORDS
from cs336_basics.bpe.v1_naive import NaiveTrainer
from cs336_basics.splitting import pattern_of_superwords, pretokenize


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
    return "\n\n".join([f"merges:{_merges_text(moment)}", *_drawings(moment, stage)])


def explain_superwords(
    text: str, num_word_merges: int, num_merges: int = 2, stage: str | None = None
) -> str:
    """Return the merges within words and the superwords, followed by the drawings.

    Args:
        text: Lines of words, which are split with the pattern `gpt2`.
        num_word_merges: Number of merges within words. Fewer are made if no pair is left.
        num_merges: Number of merges after them, which may join the words of a line.
        stage: See `explain`.

    Raises:
        ValueError, ImportError: See `explain`.
    """
    words = moment_after(_counted(text, "gpt2"), num_word_merges)
    tokens = dict.fromkeys([*BYTES, *map(b"".join, words.merges)])
    rules = Rules(
        num_merges,
        limits=Limits(max_words=MAX_WORDS),
        start=StartingVocabulary((dict(enumerate(tokens)), words.merges)),
    )
    lines = moment_after(_counted(text, pattern_of_superwords("gpt2")), num_merges, rules)
    merges = f"merges in words:{_merges_text(words)}\nsuperwords:{_merges_text(lines)}"
    return "\n\n".join([merges, *_drawings(lines, stage)])


def _counted(text: str, pattern: str) -> Counter[bytes]:
    """Return the number of occurrences of each pre-token."""
    return Counter(word.encode() for word in pretokenize(text, pattern))


def _merges_text(moment: Moment) -> str:
    """Return the merges, and whether no pair is left."""
    shown = "".join(f" {pair_text(pair)}" for pair in moment.merges)
    return f"{shown or ' none'}{'' if moment.best else '; no pair is left'}"


def _drawings(moment: Moment, stage: str | None) -> list[str]:
    """Return the name and the drawing of one or all trainers."""
    built = [name for name, trainer in TRAINERS.items() if trainer.is_built]
    names = built if stage is None else [stage]
    return [part for name in names for part in (name, get_trainer(name)().draw(moment))]


def draw(stage: str, word_counts: Mapping[bytes, int], num_merges: int) -> str:
    """Return a drawing of one trainer's data; see `explain`.

    Args:
        stage: A name in TRAINERS.
        word_counts: Mapping from words to counts.
        num_merges: Number of merges before the drawing.
    """
    return get_trainer(stage)().draw(moment_after(word_counts, num_merges))


def moment_after(
    word_counts: Mapping[bytes, int], num_merges: int, rules: Rules | None = None
) -> Moment:
    """Return the words after some merges.

    Args:
        word_counts: Mapping from words to counts. The words must have at most MOST_BYTES bytes in
            total.
        num_merges: Number of merges. Fewer are made if no pair is left.
        rules: Rules of the merges. Defaults to the rules of a trainer with default options.

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
    rules = Rules(num_merges) if rules is None else rules
    words = [rules.start.split(word) for word in word_counts]
    learned = NaiveTrainer().learn(words, list(word_counts.values()), rules, nullcontext)
    merges = [pair for pair, *_ in islice(learned, num_merges)]
    best = next((pair for pair, *_ in learned), None)
    return Moment(word_counts, rules, merges, best)
