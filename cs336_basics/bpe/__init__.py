"""Counted words to merges: one trainer interface, several versions behind it.

`TRAINERS` holds the versions in reading order. All learn the same merges; each is faster than the
one before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from cs336_basics.bpe.base import BPE_Trainer, Pair
from cs336_basics.bpe.unbuilt import is_built, unbuilt_trainer
from cs336_basics.bpe.v1_naive import NaiveTrainer
from cs336_basics.bpe.v2_incremental import IncrementalTrainer
from cs336_basics.bpe.v3_heap import HeapTrainer

if TYPE_CHECKING:
    from cs336_basics.bpe.v4_memoryview import MemoryviewTrainer
    from cs336_basics.bpe.v5_native import NativeTrainer
else:
    try:
        from cs336_basics.bpe.v4_memoryview import MemoryviewTrainer
    except ImportError:
        MemoryviewTrainer = unbuilt_trainer("memoryview", "MemoryviewTrainer")
    try:
        from cs336_basics.bpe.v5_native import NativeTrainer
    except ImportError:
        NativeTrainer = unbuilt_trainer("native", "NativeTrainer")

__all__ = [
    "DEFAULT_TRAINER",
    "TRAINERS",
    "BPE_Trainer",
    "HeapTrainer",
    "IncrementalTrainer",
    "MemoryviewTrainer",
    "NaiveTrainer",
    "NativeTrainer",
    "get_trainer",
    "train_bpe",
]

TRAINERS: dict[str, type[BPE_Trainer]] = {
    trainer.name: trainer
    for trainer in (
        NaiveTrainer,
        IncrementalTrainer,
        HeapTrainer,
        MemoryviewTrainer,
        NativeTrainer,
    )
}
"""name -> class, in reading order."""

DEFAULT_TRAINER = next(
    name for name in ("native", "memoryview", "heap") if is_built(TRAINERS[name])
)
"""The fastest one that is built; `"heap"` needs no building."""


def get_trainer(name: str) -> type[BPE_Trainer]:
    """Return the trainer class of a name in TRAINERS.

    Raises:
        ValueError: there is no trainer of this name.
    """
    if name not in TRAINERS:
        raise ValueError(f"there is no trainer {name!r}: choose one of {', '.join(TRAINERS)}")
    return TRAINERS[name]


def train_bpe(
    input_path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    vocab_size: int,
    special_tokens: Iterable[str],
    *,
    trainer: str = DEFAULT_TRAINER,
    num_workers: int | None = None,
    pattern: str = "gpt2",
    progress: bool = False,
    min_frequency: int = 1,
    max_token_length: int | None = None,
    tie_break: str = "lexicographic",
    field: str | None = None,
    column: str | None = None,
) -> tuple[dict[int, bytes], list[Pair]]:
    """Train a byte-level BPE vocabulary on one or several files.

    For texts in memory there is `BPE_Trainer.train_from_iterator`, for words that are counted
    already `BPE_Trainer.train_from_counts`.

    Args:
        input_path: a file, a pattern such as `"data/*.txt"`, or several of both: UTF-8 text, JSON
            lines, Parquet, compressed or not; see `pretokenization.count_words`.
        vocab_size: 256 bytes + special tokens + merges.
        special_tokens: cut out of the text before anything is counted.
        trainer: a name in TRAINERS; all learn the same merges.
        num_workers: threads or processes that count words, None = one for each core.
        pattern: split pattern, a name in PATTERNS or a regular expression.
        progress: show progress bars on a terminal.
        min_frequency: pairs with a smaller count are not merged.
        max_token_length: no pair is merged that would make a longer token (bytes).
        tie_break: `"lexicographic"` (CS336) or `"huggingface"`: which of equally frequent pairs is
            merged first.
        field, column: which field of JSON lines, which column of Parquet has the text.

    Returns:
        `(vocab, merges)`; see `BPE_Trainer.train`, also for what is raised.
    """
    chosen = get_trainer(trainer)(
        pattern=pattern,
        num_workers=num_workers,
        progress=progress,
        min_frequency=min_frequency,
        max_token_length=max_token_length,
        tie_break=tie_break,
        field=field,
        column=column,
    )
    return chosen.train(input_path, vocab_size, special_tokens)
