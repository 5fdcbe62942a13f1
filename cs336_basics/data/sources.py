"""Sources: the text or token files of a run, checked before it starts."""

from __future__ import annotations

import functools
import glob
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cs336_basics._support.files import sha256_file
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.data.data_config import DataConfig
from cs336_basics.pretokenization.reading.corpus import (
    Corpus,
    MissingFieldError,
    check_options_are_used,
    expand_paths,
    is_plain_text,
    kind_of,
)
from cs336_basics.pretokenization.reading.readers import read_texts
from cs336_basics.pretokenization.reading.storage import is_url, size_of
from cs336_basics.pretokenization.splitter import Splitter


@dataclass(frozen=True)
class TokenFiles:
    """Token files that are trained on one after the other."""

    files: tuple[str, ...]


Source = Corpus | TokenFiles


def find_sources(data: DataConfig) -> tuple[Source | None, Source | None]:
    """Return what `train_path` and `valid_path` name, None for what is not set.

    The first row of each file of rows is read, so that a wrong field is noticed here.

    Raises:
        FileNotFoundError: a file does not exist, or no file matches a glob.
        ValueError: a file cannot be used, or the options of the text do not fit the files; names
            the key.
        ImportError: a library for the format is missing.
    """
    sources = [_find(key, getattr(data, key), data) for key in ("train_path", "valid_path")]
    corpora = [source for source in sources if isinstance(source, Corpus)]
    check_options_are_used(corpora, prefix="data.", field=data.field, column=data.column)
    return sources[0], sources[1]


def _find(key: str, paths: str | tuple[str, ...] | None, data: DataConfig) -> Source | None:
    if paths is None:
        return None
    key = f"data.{key}"
    names = (paths,) if isinstance(paths, str) else paths
    files = tuple(file for name in names for file in _expanded(key, name))
    if not any(is_url(file) or os.path.getsize(file) for file in files):
        subject = "the file is" if len(files) == 1 else f"all {len(files)} files are"
        raise ValueError(f"{key} is {_shown(paths)}: {subject} empty")
    tokens = [file for file in files if file.endswith(".npy")]
    if not tokens:
        return _corpus(key, files, data)
    others = [file for file in files if not file.endswith(".npy")]
    if others:
        raise ValueError(
            f"{key} names the token file {tokens[0]} and the text {others[0]}: name files of one "
            "kind, or encode the text to token files first"
        )
    if data.tokenizer is None:
        raise ValueError(f"{key} is the token file {tokens[0]}: name its tokenizer, data.tokenizer")
    return TokenFiles(files)


def _expanded(key: str, name: str) -> tuple[str, ...]:
    if Path(name).is_dir():
        raise ValueError(
            f"{key} is {name!r}: that is a directory; name a file, or a glob such as "
            f"{os.path.join(name, '*.txt')!r}"
        )
    try:
        return expand_paths(name)
    except FileNotFoundError:
        what = "no file matches this glob" if glob.has_magic(name) else "there is no such file"
        raise FileNotFoundError(f"{key} is {name!r}: {what}") from None
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def _corpus(key: str, files: tuple[str, ...], data: DataConfig) -> Corpus:
    try:
        corpus = Corpus.fitting(files, field=data.field, column=data.column, errors=data.errors)
        for file in files:
            _read_beginning(corpus, file)
    except MissingFieldError as error:
        example = error.columns[0] if error.columns else "text"
        raise ValueError(
            f"{key}: {error.problem}: set data.{error.option}, to {example!r} for example"
        ) from None
    return corpus


def _read_beginning(corpus: Corpus, file: str) -> None:
    """Check what a file of rows shows at its beginning; one of text was checked by Corpus."""
    if kind_of(file) == "jsonl":
        next(read_texts(corpus, file, Splitter()), None)
    elif kind_of(file) != "text":
        corpus.only([file]).chunks()


def _shown(paths: str | tuple[str, ...]) -> str:
    return repr(paths) if isinstance(paths, str) else ", ".join(map(repr, paths[:3]))


def check_length(key: str, source: Source | None, context_length: int) -> None:
    """Check that a text can have enough tokens, before a tokenizer is trained on it.

    Raises:
        ValueError: it has too few bytes.
    """
    if not isinstance(source, Corpus) or not all(map(is_plain_text, source.files)):
        return
    # A token has at least one byte, except those that separate files.
    most = sum(map(os.path.getsize, source.files)) + len(source.files)
    if most < context_length + 1:
        raise ValueError(
            f"{key} holds {most - len(source.files):,} bytes; a context of {context_length:,} "
            f"tokens needs at least {context_length + 1:,} tokens: use more text or a smaller "
            "model.context_length"
        )


def separator_of(source: Corpus) -> str | None:
    """Return the special token to append to each document of a corpus that lacks it.

    Rows and files of their own have no end-of-text token between them. A single text is as its
    author wrote it.
    """
    is_one_text = len(source.files) == 1 and kind_of(source.files[0]) == "text"
    return None if is_one_text else END_OF_TEXT


def fingerprint(source: Source, sha256_of: Callable[[str], str]) -> dict[str, Any]:
    """Return what determines the content of a source: hashes of its files, and how they are read.

    Names of files are not included, so that data can be moved.

    Args:
        source: text or token files.
        sha256_of: what `file_hashes` returns.
    """
    hashes = [sha256_of(file) for file in source.files]
    if isinstance(source, TokenFiles):
        return {"file": hashes[0]} if len(hashes) == 1 else {"files": _combined(hashes)}
    if len(hashes) == 1 and is_plain_text(source.files[0]) and source.errors == "replace":
        return {"source": hashes[0]}
    lines = [f"{kind} {digest}" for kind, digest in zip(source.kinds, hashes, strict=True)]
    found: dict[str, Any] = {"sources": _combined(lines), "errors": source.errors}
    for option in ("field", "column"):
        if getattr(source, option) is not None:
            found[option] = getattr(source, option)
    return found


def _combined(lines: Sequence[str]) -> str:
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return f"{len(lines)} file{'s' * (len(lines) != 1)}, {digest}"


def file_hashes() -> Callable[[str], str]:
    """Return a function that returns the SHA-256 of a file, and reads each file once.

    Of a URL, which may be any distance away, it returns the size.
    """

    @functools.cache
    def sha256_of(file: str) -> str:
        return f"{size_of(file)} bytes" if is_url(file) else sha256_file(file)

    return sha256_of


def absolute_path(path: str) -> str:
    """Return a path, glob or URL that means the same files from every working directory."""
    if is_url(path):
        return path
    if glob.has_magic(path) and not os.path.exists(path):
        # The names of the parent directories may hold characters of globs.
        return os.path.normpath(os.path.join(glob.escape(os.getcwd()), path))
    return os.path.abspath(path)
