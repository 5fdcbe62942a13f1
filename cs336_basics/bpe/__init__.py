"""Counted words to merges: one interface, several versions of the trainer.

`TRAINERS` holds the versions in reading order. All learn the same merges; each is faster than the
one before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cs336_basics._support.messages import short_repr
from cs336_basics.bpe.base import BPE_Trainer
from cs336_basics.bpe.reference import Pair
from cs336_basics.bpe.unbuilt import is_built, unbuilt_trainer
from cs336_basics.bpe.v1_naive import NaiveTrainer
from cs336_basics.bpe.v2_incremental import IncrementalTrainer
from cs336_basics.bpe.v3_heap import HeapTrainer
from cs336_basics.pretokenization.reading.corpus import Corpus, PathsLike

if TYPE_CHECKING:
    from cs336_basics.bpe.v4_memoryview import MemoryviewTrainer
    from cs336_basics.bpe.v5_native import NativeTrainer
else:
    try:
        from cs336_basics.bpe.v4_memoryview import MemoryviewTrainer
    except ImportError:
        MemoryviewTrainer = unbuilt_trainer("memoryview")
    try:
        from cs336_basics.bpe.v5_native import NativeTrainer
    except ImportError:
        NativeTrainer = unbuilt_trainer("native")

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
"""The fastest version that is built; `"heap"` is pure Python."""


def get_trainer(name: str) -> type[BPE_Trainer]:
    """Return the trainer class of a name in TRAINERS.

    Raises:
        ValueError: no trainer has this name.
    """
    if not isinstance(name, str) or name not in TRAINERS:
        raise ValueError(f"trainer is {short_repr(name)}: it must be one of {', '.join(TRAINERS)}")
    return TRAINERS[name]


def train_bpe(
    input_path: Corpus | PathsLike,
    vocab_size: int,
    special_tokens: Iterable[str],
    *,
    trainer: str = DEFAULT_TRAINER,
    **options: Any,
) -> tuple[dict[int, bytes], list[Pair]]:
    """Train a byte-level BPE vocabulary on one or several files.

    For texts in memory there is `BPE_Trainer.train_from_iterator`, for words that are counted
    already `BPE_Trainer.train_from_counts`.

    Args:
        input_path: a file, a glob such as `"data/*.txt"`, or several of both, or a Corpus, which
            also says which field or column has the text: UTF-8 text, JSON lines, Parquet,
            compressed or not.
        vocab_size: 256 bytes + special tokens + merges.
        special_tokens: cut out of the text before anything is counted.
        trainer: a name in TRAINERS; all learn the same merges.
        options: what BPE_Trainer takes: `pattern`, `num_workers`, `progress`, `min_frequency`,
            `max_token_length`, `tie_break`, `trace`, and `continue_from`, an existing vocabulary
            and its merges from which training goes on.

    Returns:
        `(vocab, merges)`; see `BPE_Trainer.train`, also for what is raised.
    """
    return get_trainer(trainer)(**options).train(input_path, vocab_size, special_tokens)
