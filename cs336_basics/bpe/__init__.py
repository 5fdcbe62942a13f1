"""Counted words to merges: one trainer interface, several versions behind it.

`TRAINERS` holds the versions in reading order. All learn the same merges; each is faster than the
one before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from cs336_basics.bpe.trainer import BPE_Trainer, Pair
from cs336_basics.bpe.v1_naive import NaiveTrainer
from cs336_basics.bpe.v2_incremental import IncrementalTrainer
from cs336_basics.bpe.v3_heap import HeapTrainer

if TYPE_CHECKING:
    from cs336_basics.bpe.v4_memoryview import MemoryviewTrainer
else:
    try:
        from cs336_basics.bpe.v4_memoryview import MemoryviewTrainer
    except ImportError:
        from cs336_basics.bpe.unbuilt import unbuilt_trainer

        MemoryviewTrainer = unbuilt_trainer("memoryview", "MemoryviewTrainer")

__all__ = [
    "DEFAULT_TRAINER",
    "TRAINERS",
    "BPE_Trainer",
    "HeapTrainer",
    "IncrementalTrainer",
    "MemoryviewTrainer",
    "NaiveTrainer",
    "get_trainer",
    "train_bpe",
]

TRAINERS: dict[str, type[BPE_Trainer]] = {
    trainer.name: trainer
    for trainer in (NaiveTrainer, IncrementalTrainer, HeapTrainer, MemoryviewTrainer)
}
"""name -> class, in reading order."""

DEFAULT_TRAINER = "memoryview"


def get_trainer(name: str) -> type[BPE_Trainer]:
    """Return the trainer class of a name in TRAINERS.

    Raises:
        ValueError: there is no trainer of this name.
    """
    if name not in TRAINERS:
        raise ValueError(f"there is no trainer {name!r}: choose one of {', '.join(TRAINERS)}")
    return TRAINERS[name]


def train_bpe(
    input_path: str | os.PathLike[str],
    vocab_size: int,
    special_tokens: Iterable[str],
    *,
    trainer: str = DEFAULT_TRAINER,
    num_workers: int | None = None,
    pattern: str = "gpt2",
    progress: bool = False,
) -> tuple[dict[int, bytes], list[Pair]]:
    """Train a byte-level BPE vocabulary on a text file.

    Args:
        input_path: UTF-8 text.
        vocab_size: 256 bytes + special tokens + merges.
        special_tokens: cut out of the text before anything is counted.
        trainer: a name in TRAINERS; all learn the same merges.
        num_workers: processes that count words, None = one for each core.
        pattern: split pattern, a name in PATTERNS or a regular expression.
        progress: show progress bars on a terminal.

    Returns:
        `(vocab, merges)`; see `BPE_Trainer.train`, also for what is raised.
    """
    chosen = get_trainer(trainer)(pattern=pattern, num_workers=num_workers, progress=progress)
    return chosen.train(input_path, vocab_size, special_tokens)
