"""The pipeline from text to a tokenizer directory: train, save, and record the inputs.

`train_bpe` returns a vocabulary and merges. `train_tokenizer` also saves them to a directory for
`Tokenizer.from_directory`, with a training.json that records the text and the options.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from cs336_basics._support.arguments import checked_bool
from cs336_basics._support.errors import InputError, OutputExistsError
from cs336_basics._support.files import named_directory
from cs336_basics._support.reading import read_json_object
from cs336_basics.bpe.base import BPE_Trainer
from cs336_basics.bpe.superwords import Superwords
from cs336_basics.data.training_text import Learned, TrainingText
from cs336_basics.tokenizer.definition import (
    TOKENIZER_FILE,
    TRAINING_FILE,
    TokenizerDefinition,
)
from cs336_basics.tokenizer.tokenizer import Tokenizer

_MOST_TRAINING_BYTES = 1 << 26
"""Maximum size of a training.json that is read. It lists the files of the corpus."""


class Continued(NamedTuple):
    """A tokenizer whose training is continued."""

    definition: TokenizerDefinition
    superwords: Superwords | None = None
    """How its superwords were learned, if the new tokenizer has the same pattern."""


def superwords_of(directory: str | os.PathLike[str]) -> Superwords | None:
    """Return how the superwords of a tokenizer directory were learned.

    Returns:
        None if the directory has no training.json, or the tokenizer has no superwords.

    Raises:
        ValueError: If the record is damaged.
    """
    path = Path(directory, TRAINING_FILE)
    if not path.is_file():
        return None
    record = read_json_object(path, _MOST_TRAINING_BYTES)
    if "superwords_from" not in record:
        return None
    values: dict[str, Any] = {field.name: record.get(field.name) for field in fields(Superwords)}
    try:
        return Superwords(**values)
    except InputError as error:
        raise error.at(str(path)) from None


def train_tokenizer(
    trainer: BPE_Trainer,
    text: TrainingText,
    directory: str | os.PathLike[str],
    vocab_size: int,
    special_tokens: Sequence[str],
    *,
    continued: Continued | None = None,
    overwrite: bool = False,
) -> Learned:
    """Train a vocabulary and save it to a tokenizer directory.

    The arguments are checked before the text is read. If an error occurs, no new directory is left
    behind, and an existing tokenizer is unchanged.

    Args:
        trainer: Trainer with the split pattern and the normalizer. Its `timings` are set to the
            timings of this call.
        text: What to train on; see `training_text.py`.
        directory: Output directory for tokenizer.json and training.json.
        vocab_size: Size of the vocabulary: 256 bytes, the special tokens, and one token per merge.
        special_tokens: Tokens that are cut out of the text and get their own ids.
        continued: Tokenizer whose vocabulary the trainer continues. The new tokenizer keeps the
            flags of its added tokens, its post-processor and, unless the trainer learns superwords
            of its own, the record of its superwords. Its added tokens must be among
            `special_tokens`.
        overwrite: Whether to replace an existing tokenizer in `directory`.

    Raises:
        FileExistsError: If `directory` contains a tokenizer and `overwrite` is False.
        NotADirectoryError: If `directory` is a file.
        ValueError, OSError: See `BPE_Trainer.train`. A ValueError is also raised if words were
            counted with a different pattern, different special tokens or a different normalizer, or
            the trainer cannot learn from the text; see `TrainingText.check`.
    """
    output = named_directory(directory)
    if output.exists() and not output.is_dir():
        raise NotADirectoryError(f"{output} is a file; choose a directory for the tokenizer")
    if not checked_bool("overwrite", overwrite) and (output / TOKENIZER_FILE).exists():
        raise OutputExistsError(f"{output} already contains a tokenizer")
    text.check(trainer)
    trainer.check_request(vocab_size, special_tokens)
    _check_is_writable(output)
    learned = text.learn(trainer, vocab_size, special_tokens)
    old_tokens = continued.definition.added_tokens if continued else ()
    known = {token.content: token for token in old_tokens}
    definition = TokenizerDefinition(
        learned.vocab,
        learned.merges,
        [known.get(token, token) for token in special_tokens],
        trainer.tokenizer_pattern,
        normalizer=trainer.normalizer,
        post_processor=continued.definition.post_processor if continued else None,
        length_settings=continued.definition.length_settings if continued else None,
    )
    Tokenizer.of(definition).save(output, _record(trainer, learned, continued))
    return learned


def _check_is_writable(directory: Path) -> None:
    """Raise OSError if the disk of a directory, which may not exist yet, is full or read-only."""
    existing = next(folder for folder in (directory, *directory.parents) if folder.is_dir())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(directory)) from error


def _record(trainer: BPE_Trainer, learned: Learned, continued: Continued | None) -> dict[str, Any]:
    """Return the content of training.json."""
    record = {
        "trainer": trainer.name,
        "tie_break": trainer.tie_break,
        "min_frequency": trainer.min_frequency,
        **trainer.limits.record(),
        **({"require": trainer.require} if trainer.require else {}),
        **learned.record,
    }
    superwords = trainer.superwords
    if continued is not None:
        record["continued"] = {
            "tokenizer_hash": continued.definition.digest,
            "vocab_size": len(continued.definition.vocab),
        }
        superwords = superwords or continued.superwords
    if superwords is not None:
        record |= dataclasses.asdict(superwords)
    return record
