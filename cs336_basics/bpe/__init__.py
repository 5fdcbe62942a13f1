"""BPE training: one interface, several versions of the trainer.

`TRAINERS` contains the versions in reading order. All learn the same merges, and each is faster
than the previous one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from cs336_basics._support.arguments import check_choice
from cs336_basics._support.lazy import lazy_names
from cs336_basics.bpe.base import BPE_Trainer
from cs336_basics.bpe.limits import Veto
from cs336_basics.bpe.reference import Pair
from cs336_basics.bpe.trace import Trace
from cs336_basics.bpe.unbuilt import unbuilt_trainer
from cs336_basics.bpe.v1_naive import NaiveTrainer
from cs336_basics.bpe.v2_incremental import IncrementalTrainer
from cs336_basics.bpe.v3_heap import HeapTrainer

if TYPE_CHECKING:
    from cs336_basics.bpe.parity import Parity
    from cs336_basics.bpe.v4_memoryview import MemoryviewTrainer
    from cs336_basics.bpe.v5_native import NativeTrainer
    from cs336_basics.counting import Sample
    from cs336_basics.text.corpus import Corpus
    from cs336_basics.text.paths import PathsLike
else:
    try:
        from cs336_basics.bpe.v4_memoryview import MemoryviewTrainer
    except ImportError:
        MemoryviewTrainer = unbuilt_trainer("memoryview")
    try:
        from cs336_basics.bpe.v5_native import NativeTrainer
    except ImportError:
        NativeTrainer = unbuilt_trainer("native")
    __getattr__, __dir__ = lazy_names(__name__, {"cs336_basics.bpe.parity": "Parity"})

__all__ = [
    "DEFAULT_TRAINER",
    "TRAINERS",
    "BPE_Trainer",
    "HeapTrainer",
    "IncrementalTrainer",
    "MemoryviewTrainer",
    "NaiveTrainer",
    "NativeTrainer",
    "Parity",
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
"""Trainer classes by name, in reading order."""

DEFAULT_TRAINER = [name for name, trainer in TRAINERS.items() if trainer.is_built][-1]
"""Name of the fastest version that is built. `"heap"` is always available."""


def get_trainer(name: str) -> type[BPE_Trainer]:
    """Return the trainer class registered in TRAINERS under the given name.

    Raises:
        ValueError: If no trainer has this name.
    """
    check_choice("trainer", name, TRAINERS)
    return TRAINERS[name]


def train_bpe(
    input_path: Corpus | PathsLike,
    vocab_size: int,
    special_tokens: Iterable[str] = (),
    *,
    trainer: str = DEFAULT_TRAINER,
    pattern: str = "gpt2",
    normalizer: str | None = None,
    splitting: str | None = None,
    execution: str | None = None,
    num_workers: int | None = None,
    progress: bool = False,
    min_frequency: int = 1,
    max_token_length: int | None = None,
    max_words: int | None = None,
    whole_characters: bool = False,
    forbid: str | None = None,
    veto: Veto | None = None,
    require: Iterable[str] = (),
    tie_break: str = "lexicographic",
    trace: Trace | None = None,
    continue_from: tuple[Mapping[int, bytes], Iterable[Pair]] | None = None,
    superwords_from: int | None = None,
    superwords_pattern: str | None = None,
    sample: Sample | None = None,
) -> tuple[dict[int, bytes], list[Pair]]:
    """Train a byte-level BPE vocabulary on one or more files.

    To train on texts in memory, use `BPE_Trainer.train_from_iterator`. To train on word counts, use
    `BPE_Trainer.train_from_counts`.

    Args:
        input_path: File, glob such as `"data/*.txt"`, list of files and globs, or Corpus. A Corpus
            also names the field or column that contains the text. Files may be UTF-8 text, JSON
            Lines or CSV, compressed or not, or Parquet or Arrow.
        vocab_size: Size of the vocabulary: 256 bytes, the special tokens, and one token per merge.
        special_tokens: Tokens to cut out of the text before counting. Defaults to none.
        trainer: A name in TRAINERS. All trainers learn the same merges. Defaults to the fastest
            one that is built.
        pattern, normalizer, splitting, execution, num_workers, progress, min_frequency,
            max_token_length, max_words, whole_characters, forbid, veto, require, tie_break, trace,
            continue_from, superwords_from, superwords_pattern, sample: See `BPE_Trainer`.

    Returns:
        `(vocab, merges)`; see `BPE_Trainer.train`.

    Raises:
        ValueError, TypeError, OSError: See `BPE_Trainer.train`.

    Example:
        >>> from cs336_basics import train_bpe
        >>> vocab, merges = train_bpe("stories.txt", 270, ["<|endoftext|>"])
        >>> len(vocab), vocab[256], merges[0]
        (270, b'<|endoftext|>', (b'h', b'e'))
    """
    made = get_trainer(trainer)(
        pattern=pattern,
        normalizer=normalizer,
        splitting=splitting,
        execution=execution,
        num_workers=num_workers,
        progress=progress,
        min_frequency=min_frequency,
        max_token_length=max_token_length,
        max_words=max_words,
        whole_characters=whole_characters,
        forbid=forbid,
        veto=veto,
        require=require,
        tie_break=tie_break,
        trace=trace,
        continue_from=continue_from,
        superwords_from=superwords_from,
        superwords_pattern=superwords_pattern,
        sample=sample,
    )
    return made.train(input_path, vocab_size, special_tokens)
