"""The pipeline from text to a tokenizer directory: count, merge, save, and record the inputs.

`train_bpe` returns a vocabulary and merges. `train_tokenizer` also saves them to a directory for
`Tokenizer.from_directory`, with a training.json that records the text and the options. It can also
save word counts, add saved counts, and count with Ray.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cs336_basics._support.arguments import MAX_INT64, checked_bool, checked_integer
from cs336_basics._support.errors import Argument, InputError, OutputExistsError
from cs336_basics._support.files import named_directory, sha256_file
from cs336_basics._support.paths import printable_path
from cs336_basics._support.reading import read_json_object
from cs336_basics._support.urls import is_url
from cs336_basics.bpe.base import BPE_Trainer
from cs336_basics.bpe.reference import Pair
from cs336_basics.counting import WordCounts, count_words
from cs336_basics.data.mixture import Portion, tempered_weights
from cs336_basics.data.parity_sources import ParitySources
from cs336_basics.splitting import Splitter
from cs336_basics.splitting.patterns.named_patterns import resolve_pattern
from cs336_basics.text import Corpus
from cs336_basics.tokenizer.definition import (
    TOKENIZER_FILE,
    TRAINING_FILE,
    TokenizerDefinition,
)
from cs336_basics.tokenizer.tokenizer import Tokenizer

_NO_MIXTURE: Mapping[Portion, Corpus | None] = MappingProxyType({})

_MOST_TRAINING_BYTES = 1 << 26
"""Maximum size of a training.json that is read. It lists the files of the corpus."""

MOST_HASHED = 1 << 30
"""Maximum size in bytes of an input file whose hash is recorded."""


@dataclass(frozen=True)
class Superwords:
    """How superwords were learned, as training.json records it.

    Raises:
        ValueError, TypeError: If a value is invalid.
    """

    superwords_from: int
    """Size of the vocabulary from which on merges joined words."""
    words_pattern: str
    """Split pattern of the words."""
    max_words: int
    """Maximum number of words in a superword."""

    def __post_init__(self) -> None:
        checked_integer("superwords_from", self.superwords_from, 1, MAX_INT64)
        checked_integer("max_words", self.max_words, 1, MAX_INT64)
        resolve_pattern(self.words_pattern)


def superwords_of(directory: str | os.PathLike[str]) -> Superwords | None:
    """Return the record of the superwords of a tokenizer directory.

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
    corpus: Corpus | None,
    directory: str | os.PathLike[str],
    vocab_size: int,
    special_tokens: Sequence[str],
    *,
    continued: TokenizerDefinition | None = None,
    superwords: Superwords | None = None,
    mixture: Mapping[Portion, Corpus | None] = _NO_MIXTURE,
    temperature: float | None = None,
    parity: ParitySources | None = None,
    counts: Sequence[str] = (),
    save_counts: str | None = None,
    ray: str | None = None,
    partial_counts: str | None = None,
    overwrite: bool = False,
) -> tuple[dict[int, bytes], list[Pair]]:
    """Train a vocabulary and save it to a tokenizer directory.

    The arguments are checked before the text is read. If an error occurs, no new directory is left
    behind, and an existing tokenizer is unchanged.

    Args:
        trainer: Trainer with the split pattern and the normalizer. Its `timings` are set to the
            timings of this call.
        corpus: The text. None trains on `counts` only.
        directory: Output directory for tokenizer.json and training.json.
        vocab_size: Size of the vocabulary: 256 bytes, the special tokens, and one token per merge.
        special_tokens: Tokens that are cut out of the text and get their own ids.
        continued: Definition of the tokenizer whose vocabulary the trainer continues. The new
            tokenizer keeps the flags of its added tokens, and its post-processor. Its added tokens
            must be among `special_tokens`.
        superwords: Record of the superwords of `continued`; see `superwords_of`. If the trainer
            learns no superwords of its own, the new tokenizer keeps this record.
        mixture: Instead of `corpus` and `counts`, corpora that have their weights as shares of the
            bytes; see `WordCounts.mixed`. None stands for the word counts at the path of the
            portion, written by `WordCounts.save`.
        temperature: Temperature of the mixture, which makes shares depend on the sizes of the
            corpora; see `tempered_weights`.
        parity: Instead of `corpus`, `mixture` and `counts`, the sources of parity-aware training.
        counts: Files written by `WordCounts.save`, added to the counts of `corpus`.
        save_counts: File to write the sum of all counts to. An existing file is replaced.
        ray: Address of the Ray cluster to count with, as in `ray_cluster`. Defaults to counting
            without Ray.
        partial_counts: Directory for partial counts; see `count_words`.
        overwrite: Whether to replace an existing tokenizer in `directory`.

    Returns:
        `(vocab, merges)`, as `BPE_Trainer.train` returns them.

    Raises:
        FileExistsError: If `directory` contains a tokenizer and `overwrite` is False.
        NotADirectoryError: If `directory` is a file.
        ValueError, OSError: See `BPE_Trainer.train`. A ValueError is also raised if words were
            counted with a different pattern, different special tokens or a different normalizer, or
            `trainer.min_frequency` is above 1 for a mixture, whose counts are multiplied.
    """
    output = named_directory(directory)
    if output.exists() and not output.is_dir():
        raise NotADirectoryError(f"{output} is a file; choose a directory for the tokenizer")
    if not checked_bool("overwrite", overwrite) and (output / TOKENIZER_FILE).exists():
        raise OutputExistsError(f"{output} already contains a tokenizer")
    saved = [portion.path for portion, part in mixture.items() if part is None]
    if trainer.superwords_from is not None and (counts or save_counts or saved):
        raise InputError(
            f"is {trainer.superwords_from:,}, but superwords cannot be learned from word counts",
            argument="superwords_from",
            remedy=f"pass the text of {saved[0]}"
            if saved
            else ("leave out ", Argument("counts"), " and ", Argument("save_counts")),
        )
    if mixture:
        _check_suits_mixture(trainer, corpus, counts)
    if temperature is not None:
        tempered_weights([], [], temperature)  # checks it
        if not mixture:
            raise InputError(("requires ", Argument("mixture")), argument="temperature")
    trainer.check_request(vocab_size, special_tokens)
    sources = describe_files([*(corpus.files if corpus else ()), *counts])
    mixed: list[dict[str, Any]] = [
        {
            "name": portion.name,
            "weight": portion.weight,
            "corpus": describe_files([portion.path] if part is None else part.files),
        }
        for portion, part in mixture.items()
    ]
    existing = next(folder for folder in (output, *output.parents) if folder.is_dir())
    try:
        with tempfile.TemporaryFile(dir=existing):  # fails if the disk is full or read-only
            pass
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(output)) from error

    def count(splitter: Splitter) -> WordCounts:
        def counted(text: Corpus | None, files: Sequence[str]) -> WordCounts:
            return _count(trainer, splitter, text, files, ray, partial_counts)

        if mixture:
            parts = [
                counted(part, [portion.path] if part is None else ())
                for portion, part in mixture.items()
            ]
            weights = [portion.weight for portion in mixture]
            if temperature is not None:
                weights = tempered_weights(weights, [p.num_bytes for p in parts], temperature)
                for portion, weight in zip(mixed, weights, strict=True):
                    portion["weight"] = weight / sum(weights)
            total = WordCounts.mixed(parts, weights)
        else:
            total = counted(corpus, counts)
        if save_counts:
            total.save(save_counts)
        return total

    if parity is None:
        vocab, merges = trainer.train_counted(count, vocab_size, special_tokens)
        text: dict[str, Any] = {"mixture": mixed} if mixed else {"corpus": sources}
        if temperature is not None:
            text["temperature"] = temperature
    else:
        vocab, merges = trainer.train_parity(
            parity.train, vocab_size, special_tokens, dev=parity.dev, parity=parity.parity
        )
        files = [describe_files(corpus.files) for corpus in parity.train]
        text = {"parity": parity.record(trainer.served, files)}
    training = {
        "trainer": trainer.name,
        "tie_break": trainer.tie_break,
        "min_frequency": trainer.min_frequency,
        **trainer.limits.record(),
        **({"require": trainer.require} if trainer.require else {}),
        **text,
    }
    if continued is not None:
        training["continued"] = {
            "tokenizer_hash": continued.digest,
            "vocab_size": len(continued.vocab),
        }
    if trainer.superwords_from is not None:
        max_words = trainer.limits_of_superwords().max_words
        assert max_words is not None
        superwords = Superwords(trainer.superwords_from, trainer.pattern, max_words)
    if superwords is not None:
        training |= dataclasses.asdict(superwords)
    known = {token.content: token for token in continued.added_tokens} if continued else {}
    definition = TokenizerDefinition(
        vocab,
        merges,
        [known.get(token, token) for token in special_tokens],
        trainer.tokenizer_pattern,
        normalizer=trainer.normalizer,
        post_processor=None if continued is None else continued.post_processor,
    )
    Tokenizer.of(definition).save(output, training)
    return vocab, merges


def _check_suits_mixture(
    trainer: BPE_Trainer, corpus: Corpus | None, counts: Sequence[str]
) -> None:
    if corpus is not None or counts:
        raise InputError(
            ("cannot be given with ", Argument("paths"), " or ", Argument("counts")),
            argument="mixture",
            remedy="give every text a weight",
        )
    if trainer.min_frequency > 1:
        raise InputError(
            f"must be 1 for a mixture, whose counts are multiplied, got {trainer.min_frequency}",
            argument="min_frequency",
        )


def _count(
    trainer: BPE_Trainer,
    splitter: Splitter,
    corpus: Corpus | None,
    counts: Sequence[str],
    ray: str | None,
    partial_counts: str | None,
) -> WordCounts:
    """Return the sum of the corpus's word counts and the counts in files."""
    addends = []
    for file in counts:
        addends.append(WordCounts.load(file))
        try:
            addends[-1].check_made_with(splitter)
        except InputError as error:
            raise error.at(os.fspath(file)) from None
    if corpus is not None:
        found = count_words(
            corpus,
            splitter,
            splitting=trainer.splitting,
            execution="ray" if ray else trainer.execution,
            num_workers=trainer.num_workers,
            progress=trainer.progress,
            ray_address=ray,
            partial_counts=partial_counts,
        )
        addends.append(found)
    total = WordCounts.combined(addends)
    if counts:
        total.check_num_bytes()
    return total


def describe_files(files: Sequence[str]) -> list[dict[str, Any]]:
    """Return the path, size and SHA-256 of each input file; for a URL, only the URL as its path.

    The hash of a file larger than MOST_HASHED is None, because computing it would take as long as
    training.
    """
    return [
        {"path": file}
        if is_url(file)
        else {
            "path": printable_path(file),
            "num_bytes": (size := os.path.getsize(file)),
            "sha256": sha256_file(file) if size <= MOST_HASHED else None,
        }
        for file in files
    ]
