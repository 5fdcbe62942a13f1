"""A run's text or token files, checked before the run starts."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cs336_basics._support.errors import Argument, InputError, MissingFileError
from cs336_basics._support.messages import counted, short_names
from cs336_basics._support.paths import printable_path
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics._support.urls import is_url
from cs336_basics.data.data_config import DataConfig
from cs336_basics.data.preparation_record import recorded_files
from cs336_basics.splitting.splitter import Splitter
from cs336_basics.text.corpus import Corpus
from cs336_basics.text.paths import expand_paths
from cs336_basics.text.sources import JsonLines, Source, check_options_are_used
from cs336_basics.text.sources.turns import Turns
from cs336_basics.tokenizer.files.binary_tokens import ENDING

TOKEN_ENDINGS = (".npy", ENDING)
"""Endings of the names of token files."""


@dataclass(frozen=True)
class Text:
    """Text to encode."""

    corpus: Corpus
    end_of_document: str | None = None
    """Special token to append to each document that does not end with it. None appends nothing."""

    @classmethod
    def of(cls, corpus: Corpus) -> Text:
        """Return the text of a corpus, with a special token after each row or file.

        A single plain text file is used unchanged.
        """
        is_one = len(corpus.sources) == 1 and not corpus.sources[0].has_rows
        return cls(corpus, None if is_one else END_OF_TEXT)

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files."""
        return self.corpus.files

    def fingerprint(self, sha256_of: Callable[[str], str]) -> dict[str, Any]:
        """Return the values that determine the text: file hashes and reading options.

        File names are excluded, so that data can be moved.
        """
        sources = self.corpus.sources
        found = [{"sha256": sha256_of(source.path), **source.settings()} for source in sources]
        return {"sources": _combined([json.dumps(settings) for settings in found])}


@dataclass(frozen=True)
class TokenFiles:
    """Token files, used as one sequence of ids."""

    files: tuple[str, ...]

    def fingerprint(self, sha256_of: Callable[[str], str]) -> dict[str, Any]:
        """Return the values that determine the ids: hashes of the files."""
        hashes = [sha256_of(file) for file in self.files]
        return {"file": hashes[0]} if len(hashes) == 1 else {"files": _combined(hashes)}


TextOrTokens = Text | TokenFiles


def _combined(lines: Sequence[str]) -> str:
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    # Runs store this text and compare it, so it must not change.
    return f"{len(lines)} file{'s' * (len(lines) != 1)}, {digest}"


MOST_DIVIDED = 16
"""Maximum number of paths that are held out from one by one. More are treated like a glob, which a
shell may have expanded."""


@dataclass(frozen=True)
class TrainingCorpus:
    """A corpus to train on: that of `train_path`, or one of `mix`."""

    name: str
    """Name in the mixture, or "" without one."""
    weight: float
    """Share of the mixture, or 1 without one."""
    parts: tuple[TextOrTokens, ...]
    """The files of each path. Without `valid_path`, the end of each part is held out."""

    @property
    def whole(self) -> TextOrTokens:
        """All parts as one text or one sequence of ids."""
        if len(self.parts) == 1:
            return self.parts[0]
        if isinstance(self.parts[0], TokenFiles):
            return TokenFiles(tuple(file for part in self.parts for file in part.files))
        sources = [source for part in self.text_sources for source in part]
        return Text.of(Corpus.of_sources(sources))

    @property
    def text_sources(self) -> list[tuple[Source, ...]]:
        """The files of each part that is text."""
        return [part.corpus.sources for part in self.parts if isinstance(part, Text)]


@dataclass(frozen=True)
class Found:
    """The files that the paths of a configuration stand for."""

    train: tuple[TrainingCorpus, ...]
    """Empty if the run trains on a dataset."""
    valid: TextOrTokens | None
    """The files of `valid_path`, or None if it is not set."""
    named: dict[str, tuple[str | tuple[str, ...], TextOrTokens]]
    """The value of each path, as absolute, and the files found for it, by name."""
    new_files: tuple[str, ...] = ()
    """Files that the paths stand for now, but not when the run started. They are not read."""


def find_sources(data: DataConfig, prepared: Path | None = None) -> Found:
    """Return the files of `train_path` or `mix`, and of `valid_path`.

    If `prepared`, the data directory of a run, has a list of the files for the same path, these
    files are used, even if the path is a glob or a directory that has other files now.

    In formats with rows, the first row of each file is read, to detect a wrong field early.

    Raises:
        FileNotFoundError: If a file does not exist, or no file matches a glob.
        ValueError: If a file cannot be used, or an option does not apply to any file. The message
            includes the key.
        ImportError: If the library for a file format is not installed.
    """
    named: dict[str, tuple[str | tuple[str, ...], TextOrTokens]] = {}
    new_files: list[str] = []

    def found(name: str, key: str, paths: str | tuple[str, ...]) -> TextOrTokens:
        known = None
        if prepared is not None:
            known = recorded_files(prepared, name, absolute_paths(paths))
        source = _find(f"data.{key}", known or paths, data)
        if known:
            new_files.extend(_absent_from(known, paths, data))
        named[name] = absolute_paths(paths), source
        return source

    train: list[TrainingCorpus] = []
    paths = data.train_path
    if isinstance(paths, tuple):
        paths = tuple(path for path in paths if not _is_empty(path)) or paths
    if isinstance(paths, tuple) and len(paths) <= MOST_DIVIDED and data.valid_path is None:
        if prepared is None:  # otherwise, some files may be gone
            _expanded("data.train_path", paths, data)
        parts = [found(f"train_path {i}", "train_path", path) for i, path in enumerate(paths, 1)]
        train.append(TrainingCorpus("", 1.0, tuple(parts)))
    elif paths is not None:
        train.append(TrainingCorpus("", 1.0, (found("train_path", "train_path", paths),)))
    for portion in data.portions:
        source = found(f"mix {portion.name}", "mix", portion.path)
        train.append(TrainingCorpus(portion.name, portion.weight, (source,)))
    valid = None
    if data.valid_path is not None:
        valid = found("valid_path", "valid_path", data.valid_path)
    with _named_as_in_config():
        sources = [file for corpus in train for part in corpus.text_sources for file in part]
        sources += valid.corpus.sources if isinstance(valid, Text) else ()
        check_options_are_used(sources, field=data.field, column=data.column)
    return Found(tuple(train), valid, named, tuple(new_files))


def _absent_from(known: Sequence[str], paths: str | tuple[str, ...], data: DataConfig) -> list[str]:
    """Return the files that paths stand for now, except the known ones."""
    try:
        files = expand_paths(paths, data.format, data.text_field)
        return [file for file in files if absolute_path(file) not in known]
    except (OSError, InputError):  # only a note depends on it
        return []


@contextlib.contextmanager
def _named_as_in_config() -> Iterator[None]:
    """Let errors that name an argument of Corpus name the field of the configuration instead."""
    try:
        yield
    except InputError as error:
        raise error.renamed(lambda name: f"data.{name}") from None


def _find(key: str, paths: str | tuple[str, ...], data: DataConfig) -> TextOrTokens:
    files = _expanded(key, paths, data)
    if not any(is_url(file) or os.path.getsize(file) for file in files):
        shown = ", ".join(map(repr, files[:3])) + ", ..." * (len(files) > 3)
        raise InputError(f"must contain text, got only empty files: {shown}", argument=key)
    if not files[0].endswith(TOKEN_ENDINGS):
        return Text.of(_corpus(files, data))
    if data.has_turns:
        raise InputError(
            (
                f"is the token file {files[0]}, but ",
                Argument("data.answer_field"),
                " applies only to JSON Lines",
            ),
            argument=key,
        )
    if data.tokenizer is None:
        raise InputError(
            f"is the token file {files[0]}",
            argument=key,
            remedy=("set ", Argument("data.tokenizer"), " to its tokenizer"),
        )
    return TokenFiles(files)


def _expanded(key: str, paths: str | tuple[str, ...], data: DataConfig) -> tuple[str, ...]:
    """Return the files that paths stand for, which must be all text or all token files."""
    try:
        files = expand_paths(paths, data.format, data.text_field)
    except FileNotFoundError as error:
        raise MissingFileError(str(error), argument=key) from None
    except InputError as error:
        raise error.at(key) from None
    tokens = [file for file in files if file.endswith(TOKEN_ENDINGS)]
    if tokens and len(tokens) < len(files):
        text = next(file for file in files if file not in tokens)
        raise InputError(
            f"must be either text or token files, got the token file {tokens[0]} and the text "
            f"{text}",
            argument=key,
            remedy="encode the text first",
        )
    return files


def _is_empty(path: str) -> bool:
    return os.path.isfile(path) and not os.path.getsize(path)


def _corpus(files: tuple[str, ...], data: DataConfig) -> Corpus:
    with _named_as_in_config():
        corpus = Corpus(
            files,
            field=data.text_field,
            column=data.column,
            errors=data.errors,
            format=data.format,
            max_piece_bytes=data.max_piece_bytes,
            allow_unused=True,
        )
        if data.prompt_field is not None:
            corpus = turns_in(corpus, data.prompt_field)
        for source in corpus.sources:
            next(source.texts(Splitter().safe_cuts), None)  # reports a wrong field early
    return corpus


def turns_in(corpus: Corpus, prompt_field: str) -> Corpus:
    """Return the prompts and answers in a corpus, whose `field` contains the answers.

    Raises:
        ValueError: If a file is not JSON Lines.
    """
    turns = []
    for source in corpus.sources:
        if not isinstance(source, JsonLines):
            raise InputError(
                f"applies only to JSON Lines, but {printable_path(source.path)} is {source.format}",
                argument="answer_field",
            )
        turns.append(Turns.of(source, prompt_field))
    return Corpus.of_sources(turns)


def check_length(key: str, source: TextOrTokens | None, context_length: int) -> None:
    """Check that a text is long enough for one context, before a tokenizer is trained on it.

    Raises:
        ValueError: If the text has too few bytes.
    """
    if not isinstance(source, Text):
        return
    if any(found.local_path is None for found in source.corpus.sources):
        return  # the size of the text is not known
    num_bytes, num_files = source.corpus.num_bytes, len(source.corpus.files)
    # Every token has at least one byte, except the one added at the end of each file.
    if num_bytes + num_files < context_length + 1:
        raise InputError(
            f"must have at least {context_length + 1:,} tokens for a context of "
            f"{context_length:,}, but {_named(source)} has only {counted(num_bytes, 'byte')}",
            argument=key,
            remedy=("use more text or a smaller ", Argument("model.context_length")),
        )


def _named(source: TextOrTokens) -> str:
    return short_names(map(printable_path, source.files))


def absolute_paths(paths: str | tuple[str, ...]) -> str | tuple[str, ...]:
    """Return equivalent paths that do not depend on the working directory."""
    return absolute_path(paths) if isinstance(paths, str) else tuple(map(absolute_path, paths))


def absolute_path(path: str) -> str:
    """Return an equivalent path, glob or URL that does not depend on the working directory."""
    if is_url(path):
        return path
    if glob.has_magic(path) and not os.path.exists(path):
        # The names of parent directories may contain glob characters.
        return os.path.normpath(os.path.join(glob.escape(os.getcwd()), path))
    return os.path.abspath(path)
