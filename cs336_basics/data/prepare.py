"""Prepare a run's data, from text to token files.

There are three stages: the text, the tokenizer and the token files. Each stage writes its files to
the run directory and records its inputs (`preparation_record.py`). A resumed run repeats a stage
only if its files are missing or changed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.messages import counted
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.bpe import DEFAULT_TRAINER, TRAINERS, train_bpe
from cs336_basics.bpe.reference import NUM_BYTES
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.data.checked_tokens import CheckedTokens, check_ids
from cs336_basics.data.data_config import Preparation
from cs336_basics.data.datasets import dataset_path, write_sample
from cs336_basics.data.hold_out import hold_out
from cs336_basics.data.hold_out_tokens import hold_out_tokens
from cs336_basics.data.overlap import check_overlap, shared_documents
from cs336_basics.data.preparation_record import Stages
from cs336_basics.data.sources import (
    PATHS,
    Text,
    TextOrTokens,
    TokenFiles,
    absolute_path,
    absolute_paths,
    find_sources,
)
from cs336_basics.splitting.patterns.named_patterns import resolve_pattern
from cs336_basics.text.corpus import Corpus
from cs336_basics.tokenizer.definition import TOKENIZER_FILE
from cs336_basics.tokenizer.files.encode_files import NoTokensError, encode_file
from cs336_basics.tokenizer.files.joined_tokens import open_token_files
from cs336_basics.tokenizer.files.token_files import TokenFile
from cs336_basics.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class PreparedData:
    """A tokenizer, and the training and validation tokens encoded with it."""

    tokenizer: Tokenizer
    train_tokens: CheckedTokens
    valid_tokens: CheckedTokens


@dataclass(frozen=True)
class Sources:
    """The checked inputs of a run, returned by `check_sources`."""

    preparation: Preparation
    train: TextOrTokens | None
    """Text or tokens of `data.train_path`, or None if it is not set."""
    valid: TextOrTokens | None
    """Text or tokens of `data.valid_path`, or None if it is not set."""
    tokenizer: Tokenizer | None
    """Tokenizer loaded from `data.tokenizer`, or None to train one."""

    def files(self) -> dict[str, tuple[Any, list[str]]]:
        """Return the value of each path that is set, and the files found for it, as absolute."""
        data = self.preparation.data
        return {
            key: (absolute_paths(getattr(data, key)), [*map(absolute_path, source.files)])
            for key, source in zip(PATHS, (self.train, self.valid), strict=True)
            if source is not None
        }


def prepare_data(
    sources: Sources,
    run: RunDirectory,
    *,
    progress: bool = False,
    report: Callable[[str], None] = print,
) -> PreparedData:
    """Create or reuse a run's corpus, tokenizer and token files.

    `report` is called with a line for each stage.

    Raises:
        ValueError: If the text, the tokenizer, the token files and the configuration do not match.
    """
    stages = Stages(run.data, report)
    stages.record_files(sources.files())
    preparing = _Preparing(sources, run, stages, progress)
    train, valid = preparing.texts()
    tokenizer = preparing.tokenizer(train)
    train_files = preparing.token_files("train", train, tokenizer)
    if valid is not None:
        valid_files = preparing.token_files("valid", valid, tokenizer)
        train_tokens, valid_tokens = (
            _checked(files, 0, sum(len(file.tokens) for file in files), tokenizer)
            for files in (train_files, valid_files)
        )
    else:  # hold out the end of the token files
        valid_files = train_files
        end_of_text = tokenizer.special_token_id(END_OF_TEXT)
        fraction = sources.preparation.data.valid_fraction
        train_part, valid_part = hold_out_tokens(train_files, fraction, end_of_text)
        cut, end = len(train_part), len(train_part) + len(valid_part)
        train_tokens = _checked(train_files, 0, cut, tokenizer)
        valid_tokens = _checked(train_files, cut, end, tokenizer)
    num_bytes = sum(file.metadata["num_bytes"] for file in valid_files)
    num_tokens = sum(len(file.tokens) for file in valid_files)
    report(
        f"vocabulary of {tokenizer.vocab_size:,} tokens; {len(train_tokens):,} training tokens, "
        f"{len(valid_tokens):,} validation tokens, {num_bytes / max(num_tokens, 1):.2f} bytes/token"
    )
    if isinstance(train, Text) and isinstance(valid, Text):
        shared, total = shared_documents(train.corpus, valid.corpus) or (0, 0)
        if shared:
            report(
                f"{shared:,} of {counted(total, 'validation document')} are also in the training "
                "text, so the validation loss is too low"
            )
    return PreparedData(tokenizer, train_tokens, valid_tokens)


def _checked(
    files: Sequence[TokenFile], start: int, stop: int, tokenizer: Tokenizer
) -> CheckedTokens:
    names = tuple(str(file.path) for file in files)
    return CheckedTokens(names, start, stop, tokenizer.vocab_size)


@dataclass(frozen=True)
class _Preparing:
    """The stages of a run's preparation."""

    given: Sources
    run: RunDirectory
    stages: Stages
    progress: bool

    @property
    def preparation(self) -> Preparation:
        return self.given.preparation

    def texts(self) -> tuple[TextOrTokens, TextOrTokens | None]:
        """Return the training source and the validation source.

        The validation source is None if the end of the token files is to be held out.
        """
        train, valid = self.given.train, self.given.valid
        data, directory = self.preparation.data, self.run.data
        if isinstance(train, Text) and valid is None:
            parts = hold_out(train.corpus, data.valid_fraction, directory, self.stages)
            # The parts of a single text are encoded without added tokens, like the whole text.
            return Text(parts[0], train.end_of_document), Text(parts[1], train.end_of_document)
        if train is not None:
            return train, valid
        if data.dataset == "sample":
            paths = [directory / "sample_train.txt", directory / "sample_valid.txt"]
            size, seed = data.sample_bytes, self.preparation.seed

            def write() -> None:  # a tenth for validation, from a different seed
                write_sample(paths[0], size - size // 10, seed)
                write_sample(paths[1], size // 10, seed + 1)

            self.stages.run("text", {"num_bytes": size, "seed": seed}, paths, write)
        else:
            splits = ("train", "valid")
            paths = [dataset_path(data.dataset, split, data.data_dir) for split in splits]
        train_text, valid_text = (Text(Corpus(path, errors=data.errors)) for path in paths)
        return train_text, valid_text

    def tokenizer(self, train: TextOrTokens) -> Tokenizer:
        """Return the configured tokenizer or a newly trained one, saved in the run directory."""
        directory = self.run.tokenizer
        outputs = [directory / TOKENIZER_FILE]
        tokenizer = self.given.tokenizer
        if tokenizer is not None:
            inputs = {"hash": tokenizer.hash()}
            # An export of the run may ask for the chat template of its tokenizer.
            keep = tokenizer.loaded_from is not None
            save = functools.partial(tokenizer.save, directory, keep_files=keep)
            self.stages.run("tokenizer", inputs, outputs, save)
            return tokenizer
        assert isinstance(train, Text)  # token files come with their tokenizer
        corpus, inputs = train.corpus, train.fingerprint(self.stages.sha256_of)
        self.stages.run("tokenizer", inputs, outputs, lambda: self._train_tokenizer(corpus))
        return Tokenizer.from_directory(directory)

    def _train_tokenizer(self, corpus: Corpus) -> None:
        data = self.preparation.data
        vocab, merges = train_bpe(
            corpus,
            self.preparation.vocab_size,
            [END_OF_TEXT],
            trainer=DEFAULT_TRAINER if data.trainer == "auto" else data.trainer,
            num_workers=self.preparation.num_workers,
            pattern=data.pattern,
            progress=self.progress,
        )
        hashes = [self.stages.sha256_of(file) for file in corpus.files]
        training = {
            "corpus_bytes": corpus.num_bytes,
            "corpus_sha256": hashes[0] if len(hashes) == 1 else hashes,
        }
        tokenizer = Tokenizer(vocab, merges, [END_OF_TEXT], pattern=data.pattern)
        tokenizer.save(self.run.tokenizer, training)

    def token_files(self, name: str, source: TextOrTokens, tokenizer: Tokenizer) -> list[TokenFile]:
        """Open the token files of a split, encoding its source first if it is text."""
        inputs = source.fingerprint(self.stages.sha256_of)
        if isinstance(source, TokenFiles):
            files = _open(source.files, tokenizer)
            size = tokenizer.vocab_size
            self.stages.check(f"{name} tokens", inputs, lambda: check_ids(files, size))
            return files
        file = self.run.data / f"{name}.npy"
        inputs["tokenizer"] = tokenizer.hash()
        if source.end_of_document is not None:
            inputs["end_of_document"] = source.end_of_document

        def encode() -> None:
            try:
                encode_file(
                    tokenizer,
                    source.corpus,
                    file,
                    num_workers=self.preparation.num_workers,
                    progress=self.progress,
                    overwrite=True,
                    end_of_document=source.end_of_document,
                )
            except NoTokensError as error:
                given = self.given.train
                if source in (given, self.given.valid) or not isinstance(given, Text):
                    raise
                raise InputError(
                    f"the {name} split of the data has no tokens",
                    place=given.corpus.files[-1],
                    remedy=(
                        "set ",
                        Argument("data.valid_path"),
                        ", so that the data is not divided",
                    ),
                ) from error

        self.stages.run(f"{name} tokens", inputs, [file], encode)
        return _open([str(file)], tokenizer)


def _open(files: Sequence[str], tokenizer: Tokenizer) -> list[TokenFile]:
    """Open token files, and check that they match the tokenizer."""
    return open_token_files(files, vocab_size=tokenizer.vocab_size, tokenizer_hash=tokenizer.hash())


def check_sources(
    preparation: Preparation, prepared: Path | None = None, tokenizer: Tokenizer | None = None
) -> Sources:
    """Find and check the inputs of a run, before anything is written.

    Args:
        preparation: What determines the data.
        prepared: The data directory of a run that is resumed; see `find_sources`.
        tokenizer: Tokenizer that has already been loaded from `data.tokenizer`.

    Raises:
        FileNotFoundError: If a text is missing. For a dataset, the message includes the command
            that downloads it.
        ValueError: If a text, the tokenizer or a configuration value is invalid.
        ImportError: If the library for a file format is not installed.
    """
    data = preparation.data
    train, valid = find_sources(data, prepared)
    if not data.allow_overlap:
        check_overlap(train, valid)
    smallest = NUM_BYTES + 1
    if data.tokenizer is None and preparation.vocab_size < smallest:
        raise InputError(
            f"must be at least {smallest} ({NUM_BYTES} bytes and {END_OF_TEXT}), got "
            f"{preparation.vocab_size}",
            argument="model.vocab_size",
        )
    if data.train_path is None and data.dataset != "sample":
        for split in ("train", "valid"):
            dataset_path(data.dataset, split, data.data_dir)
    if data.tokenizer is not None:
        tokenizer = tokenizer or Tokenizer.from_directory(data.tokenizer)
        _check_tokenizer(tokenizer, data.tokenizer)
        for source in (train, valid):
            if isinstance(source, TokenFiles):
                _open(source.files, tokenizer)
    if data.trainer not in ("auto", *TRAINERS):
        raise InputError(
            f"must be one of auto, {', '.join(TRAINERS)}, got {data.trainer!r}",
            argument="data.trainer",
        )
    resolve_pattern(data.pattern)
    return Sources(preparation, train, valid, tokenizer)


def _check_tokenizer(tokenizer: Tokenizer, directory: str) -> None:
    if END_OF_TEXT not in tokenizer.special_tokens:
        raise InputError(
            f"the tokenizer has no special token {END_OF_TEXT}, which separates documents",
            place=str(directory),
            remedy="train a tokenizer with this special token",
        )
    # A model can predict any id below the vocabulary size, so each id must be decodable.
    for token_id in range(tokenizer.vocab_size):
        if token_id not in tokenizer.vocab:
            raise InputError(f"the tokenizer has no token with id {token_id}", place=str(directory))
