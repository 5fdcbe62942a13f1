"""Corpus: a set of files, and where to find the text in them.

`kinds.py` detects the kind of a file from its name and content; docs/train-on-your-files.md lists
the kinds. Each plain text file and each row of another file is a separate document: no word spans
two documents.
"""

from __future__ import annotations

import copy
import dataclasses
import glob
import io
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Union

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.errors import Argument, InputError, InputTypeError
from cs336_basics._support.messages import short_names, short_repr
from cs336_basics._support.urls import is_url, matching_urls
from cs336_basics._support.warnings import warn
from cs336_basics.text.arrow import TableFile, holds_text
from cs336_basics.text.csv_rows import read_header
from cs336_basics.text.encodings import BEGINNING, check_file, wide_encoding
from cs336_basics.text.kinds import (
    HEAD,
    JSON,
    KINDS,
    check_is_text,
    has_known_ending,
    kind_of_json,
    named_kind,
)
from cs336_basics.text.storage import (
    MAX_PIECE_BYTES,
    decompressed_blocks,
    is_compressed,
    open_path,
    size_of,
)

PathsLike = Union[str, "os.PathLike[str]", Iterable[Union[str, "os.PathLike[str]"]]]
"""A path, glob, directory or URL, or an iterable of these."""

ERRORS = ("replace", "strict")
"""Ways to handle invalid UTF-8: read it as U+FFFD, or reject it."""

ENCODING_ERRORS = (*ERRORS, "bytes")
"""ERRORS plus `"bytes"`, for encoding only: preserve invalid bytes as tokens (`exact_bytes.py`)."""

DEFAULT_CHUNK_SIZE = 32 << 20
"""Default number of bytes of text or JSON Lines in a chunk."""

WHOLE_FILE = -1
"""Value of `Chunk.end` for a chunk that is a whole file."""

_KINDS_WITH = {"field": ("jsonl",), "column": ("csv", "parquet", "arrow")}
"""Mapping from options of Corpus to the kinds of files that need them."""

_FILES_WITH = {
    "field": "JSON Lines (.jsonl, .ndjson)",
    "column": "Parquet, Arrow or CSV (.parquet, .arrow, .feather, .csv)",
}


@dataclass(frozen=True)
class Chunk:
    """A section of a file that any process or machine can count independently.

    Attributes:
        path: Path or URL of the file.
        kind: Name in KINDS.
        start, end: Nominal byte offsets. The chunk actually starts at the first safe cut (or JSON
            line) at or after `start`, and ends at the first one at or after `end`, so the chunks
            cover the file exactly once. For Parquet, `start` and `end` are row group indices; for
            Arrow, record batch indices. If `end` is WHOLE_FILE, the chunk is the whole file.
        num_bytes: Stored size of the chunk, for progress bars.
        field: JSON Lines field or table column that contains the text.
        errors: Name in ENCODING_ERRORS.
        max_piece_bytes: See `Corpus`.
    """

    path: str
    kind: str
    start: int
    end: int
    num_bytes: int
    field: str | None
    errors: str
    max_piece_bytes: int = MAX_PIECE_BYTES


class MissingFieldError(InputError):
    """Raised if the field or column of a file was not given, or the file does not have the column.

    Args:
        path: Name of the file.
        argument: Argument of Corpus to set: `"field"` (JSON Lines) or `"column"` (tables).
        given: Value of this argument, or None.
        columns: Names of the file's columns. Empty for JSON Lines.
    """

    def __init__(
        self, path: str, argument: str, given: str | None = None, columns: Sequence[str] = ()
    ) -> None:
        if argument == "field":
            problem = "must name the field that contains the text"
        elif given is None:
            problem = f"must name the column that contains the text: {short_names(columns)}"
        else:
            problem = f"must be one of {short_names(columns)}, got {short_repr(given)}"
        remedy = ("pass ", Argument(argument, _likely_name(columns)))
        super().__init__(problem, argument=argument, remedy=remedy, place=path)


def _likely_name(columns: Sequence[str]) -> str:
    """Return the likely name of the column with the text, or NAME if there is none."""
    if not columns or "text" in columns:
        return "text"
    only = columns[0] if len(columns) == 1 else ""
    return only if only.isprintable() and 0 < len(only) < 100 else "NAME"


@dataclass(frozen=True)
class Corpus:
    """A set of text files, and the field or column that contains the text.

    The constructor checks everything that can be checked without reading the text: paths, empty
    files, kinds of files, and missing options. A Corpus is immutable and picklable. It stores file
    names, not text.

    Args:
        paths: File, directory, glob such as `"data/*.txt"`, or URL that fsspec can open, or a list
            of these, in order. A directory is searched recursively for files whose names end in
            `.txt`, `.md`, `.jsonl`, `.py` or another ending listed in `kinds.py`. Hidden files are
            skipped. In a URL, only `*` is a wildcard; the address of a web page has no wildcards.
            The files found by a glob or in a directory are sorted.
        field: JSON Lines field that contains the text. If it occurs twice in a line, the last
            value counts.
        column: CSV, Parquet or Arrow column that contains the text.
        errors: `"replace"` reads invalid UTF-8 as U+FFFD, as `bytes.decode` does. `"strict"`
            rejects it. `"bytes"`, for encoding only, preserves it.
        format: Kind of all files, a name in KINDS. Defaults to detection from name and content.
        max_piece_bytes: Maximum number of bytes in a row and in text without a safe cut, and thus
            in a pre-token. Anything longer is rejected before it fills the memory.

    Attributes:
        files: Names of all files, after expanding globs and directories.
        kinds: Kind of each file, a name in KINDS.

    Raises:
        FileNotFoundError: If a file does not exist, or no file matches a glob.
        ValueError: If a path is a pipe, a device, or a directory without text files; if all files
            are empty; if a file is an archive or an array, or starts with the byte order mark of
            UTF-16 or UTF-32 (unless `errors` is `"bytes"`); if `format` is not given and a plain
            text file is evidently JSON Lines, CSV or binary; if `field` or `column` is given but no
            file uses it; or if `errors` or `format` is unknown.
        MissingFieldError: If a file contains JSON Lines and `field` is missing, or a file is a
            table and `column` is missing. MissingFieldError is a subclass of ValueError. `chunks`
            checks that tables have the column.
        TypeError: If a path is not a str or Path, or `field` or `column` is not a str.

    Warns:
        UserWarning: If a file looks like UTF-16 or UTF-32 without a byte order mark.
    """

    paths: PathsLike
    _: KW_ONLY
    field: str | None = None
    column: str | None = None
    errors: str = "replace"
    format: str | None = None
    max_piece_bytes: int = MAX_PIECE_BYTES
    files: tuple[str, ...] = dataclasses.field(init=False, repr=False)
    kinds: tuple[str, ...] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "paths", _names_of(self.paths))
        check_errors(self.errors, ENCODING_ERRORS)
        if self.format not in (None, *KINDS):
            raise InputError(
                f"must be one of {', '.join(KINDS)}, or None, got {short_repr(self.format)}",
                argument="format",
            )
        checked_integer("max_piece_bytes", self.max_piece_bytes, 1, note=" byte")
        for option, value in (("field", self.field), ("column", self.column)):
            if not isinstance(value, (str, type(None))):
                raise InputTypeError(
                    f"must be a str or None, got {short_repr(value)}", argument=option
                )
        files = expand_paths(self.paths)
        object.__setattr__(self, "files", files)
        if not files:
            raise InputError("must contain at least one file", argument="paths")
        object.__setattr__(self, "kinds", kinds_of(files, self.format))
        for file, kind in zip(files, self.kinds, strict=True):
            if kind == "jsonl" and self.field is None:
                raise MissingFieldError(file, "field")
            if kind in _KINDS_WITH["column"] and self.column is None:
                self._checked_table(file, kind)
        check_options_are_used([self], field=self.field, column=self.column)
        if not any(is_url(file) or os.path.getsize(file) for file in files):
            shown = ", ".join(map(repr, files[:3])) + (", ..." if len(files) > 3 else "")
            raise InputError(f"{shown}: no text; pass a file that contains text")
        for file, kind in zip(files, self.kinds, strict=True):
            self._check_beginning_of(file, kind)

    @classmethod
    def of(cls, corpus: Corpus | PathsLike) -> Corpus:
        """Return `corpus` if it is a Corpus. Otherwise, return a Corpus of these paths."""
        return corpus if isinstance(corpus, Corpus) else cls(corpus)

    @classmethod
    def fitting(
        cls,
        paths: PathsLike,
        *,
        field: str | None = None,
        column: str | None = None,
        errors: str = "replace",
        format: str | None = None,
        max_piece_bytes: int = MAX_PIECE_BYTES,
    ) -> Corpus:
        """Return a Corpus that ignores `field` or `column` if no file needs it.

        Use this method if several corpora share the options but have different kinds of files.
        Then call `check_options_are_used` to check that at least one corpus needs each option.
        """
        paths = _names_of(paths)
        kinds = set(kinds_of(expand_paths(paths), format))
        return cls(
            paths,
            field=field if kinds.intersection(_KINDS_WITH["field"]) else None,
            column=column if kinds.intersection(_KINDS_WITH["column"]) else None,
            errors=errors,
            format=format,
            max_piece_bytes=max_piece_bytes,
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Stored size of each file in bytes, looked up on each access."""
        return tuple(size_of(file) for file in self.files)

    @property
    def num_bytes(self) -> int:
        """Stored size of all files in bytes, looked up on each access."""
        return sum(self.sizes)

    def only(self, files: Iterable[str]) -> Corpus:
        """Return a copy of this corpus with the given files: its own, or parts cut from them."""
        chosen = copy.copy(self)
        known = dict(zip(self.files, self.kinds, strict=True))
        object.__setattr__(chosen, "files", tuple(files))
        object.__setattr__(chosen, "paths", chosen.files)
        kinds = (known.get(file) or named_kind(file) for file in chosen.files)
        object.__setattr__(chosen, "kinds", tuple(kinds))
        return chosen

    def absolute(self) -> Corpus:
        """Return a copy of this corpus with absolute paths, for processes in other directories."""
        chosen = copy.copy(self)
        files = (file if is_url(file) else os.path.abspath(file) for file in self.files)
        object.__setattr__(chosen, "files", tuple(files))
        object.__setattr__(chosen, "paths", chosen.files)
        return chosen

    @property
    def plain(self) -> tuple[bool, ...]:
        """Whether each file is uncompressed plain text on a local disk."""
        return tuple(
            kind == "text" and not is_compressed(file) and not is_url(file)
            for file, kind in zip(self.files, self.kinds, strict=True)
        )

    def by_plainness(self) -> tuple[Corpus, Corpus]:
        """Split this corpus into a corpus of plain text files and a corpus of all other files.

        Compiled code reads plain text directly. `readers.py` reads other files.
        """
        files = list(zip(self.files, self.plain, strict=True))
        return (
            self.only(file for file, is_plain in files if is_plain),
            self.only(file for file, is_plain in files if not is_plain),
        )

    def chunks(self, chunk_size: int = DEFAULT_CHUNK_SIZE) -> list[Chunk]:
        """Return the chunks of all files, without reading their text.

        Args:
            chunk_size: Approximate number of bytes of text or JSON Lines in a chunk. Compressed
                files are not divided. Tables are divided between row groups or record batches.

        Raises:
            FileNotFoundError: If a file was deleted.
            MissingFieldError: If a table does not have the column.
            ValueError: If a table is damaged, or its column does not contain strings.
            ImportError: If a library for the format is not installed.
        """
        chunk_size = checked_integer("chunk_size", chunk_size, 1, note=" byte")
        chunks = []
        for file, kind in zip(self.files, self.kinds, strict=True):
            field = {"text": None, "jsonl": self.field}.get(kind, self.column)
            chunks += [
                Chunk(file, kind, start, end, num_bytes, field, self.errors, self.max_piece_bytes)
                for start, end, num_bytes in self._ranges_of(file, kind, chunk_size)
            ]
        return chunks

    def _ranges_of(self, file: str, kind: str, chunk_size: int) -> list[tuple[int, int, int]]:
        """Return `start`, `end` and `num_bytes` of each chunk of a file."""
        size = size_of(file)
        if kind == "csv" and not size:
            return []
        if kind in _KINDS_WITH["column"]:
            sizes = self._checked_table(file, kind)
            if sizes is not None:
                return [(index, index + 1, num_bytes) for index, num_bytes in enumerate(sizes)]
        if kind in _KINDS_WITH["column"] or is_compressed(file):
            return [(0, WHOLE_FILE, size)]
        starts = range(0, size, chunk_size)
        ends = [*starts[1:], size]
        return [(start, end, end - start) for start, end in zip(starts, ends, strict=False)]

    def _checked_table(self, file: str, kind: str) -> list[int] | None:
        """Check that a table has the column, and that the column contains strings.

        Return the sizes of the row groups or record batches, or None if the file is not divided:
        the rows of a CSV file may span lines, and an Arrow stream can be read only from its start.
        """
        with open_path(file) as opened:
            if kind == "csv":
                names, sizes = read_header(opened, file, self.max_piece_bytes), None
            else:
                table = TableFile(opened, file, kind)
                names, sizes = table.schema.names, table.part_sizes()
        if self.column is None or self.column not in names:
            raise MissingFieldError(file, "column", self.column, names)
        if names.count(self.column) > 1:
            raise InputError(f"{file}: several columns are named {self.column!r}; rename them")
        if kind != "csv" and not holds_text(found := table.schema.field(self.column).type):
            raise InputError(f"{file}: column {self.column!r} must contain strings, got {found}")
        return sizes

    def _check_beginning_of(self, file: str, kind: str) -> None:
        """Check the first bytes of a local file with `check_file` and `check_is_text`."""
        if is_url(file) or kind in ("parquet", "arrow"):
            return
        head = _head_of(file)
        is_exact = self.errors == "bytes"
        if not is_exact:
            check_file(head[:BEGINNING], file)
        wide = None if is_exact else wide_encoding(head[:BEGINNING])
        if wide is not None:
            warn(
                f"{file} looks like {wide} but is read as UTF-8, with NUL bytes as characters; "
                f"convert it with `iconv -f {wide} -t UTF-8`"
            )
        elif kind == "text" and self.format is None:
            check_is_text(head, file, may_be_binary=is_exact)


def _head_of(file: str) -> bytes:
    """Return the first HEAD bytes of a file, decompressed.

    If the file cannot be read, return empty bytes; the error is reported when the text is read.
    """
    try:
        with open_path(file) as opened:
            return next(decompressed_blocks(opened, file, HEAD), b"")
    except (OSError, ValueError, ImportError):
        return b""


def kinds_of(files: Sequence[str], format: str | None = None) -> tuple[str, ...]:
    """Return the kind of each file: `format` if given, or the kind detected from name and content.

    Raises:
        ValueError: If a .json file is a single JSON value.
    """
    kinds = [format or named_kind(file) for file in files]
    return tuple(
        kind_of_json(_head_of(file), file) if kind == JSON else kind
        for file, kind in zip(files, kinds, strict=True)
    )


def check_options_are_used(
    corpora: Sequence[Corpus], *, field: str | None, column: str | None
) -> None:
    """Check that each option given to `Corpus.fitting` is needed by at least one corpus.

    Args:
        corpora: All corpora created with the options.
        field, column: Options as given to `Corpus.fitting`.

    Raises:
        ValueError: If an option is given but no file needs it.
    """
    kinds = {kind for corpus in corpora for kind in corpus.kinds}
    for option, given in (("field", field), ("column", column)):
        if given is not None and kinds.isdisjoint(_KINDS_WITH[option]):
            raise InputError(
                f"{short_repr(given)} applies only to {_FILES_WITH[option]}",
                argument=option,
                remedy=("omit it, or pass ", Argument("format", _KINDS_WITH[option][0])),
            )


def check_errors(errors: str, allowed: Sequence[str] = ERRORS) -> None:
    """Raise ValueError if `errors` is not one of the allowed values."""
    if errors not in allowed:
        note = " (for encoding only)" if errors in ENCODING_ERRORS else ""
        raise InputError(
            f"must be one of {', '.join(allowed)}, got {short_repr(errors)}{note}",
            argument="errors",
        )


def expand_paths(paths: PathsLike) -> tuple[str, ...]:
    """Expand paths, globs and directories into file names; see `Corpus`."""
    return tuple(file for name in _names_of(paths) for file in _expand(name))


def _names_of(paths: object) -> tuple[str, ...]:
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    if isinstance(paths, (bytes, io.IOBase)) or not isinstance(paths, Iterable):
        raise InputTypeError(
            f"paths must be a str or Path, or a list of these, got {short_repr(paths)}"
        )
    several = []
    for path in paths:  # check while iterating, because a dataset's rows may be endless
        if not isinstance(path, (str, os.PathLike)):
            raise InputTypeError(
                f"paths must contain str or Path, got {short_repr(path)}; for rows in memory, use "
                "train_from_iterator or encode_rows"
            )
        several.append(os.fspath(path))
    return tuple(several)


def _expand(name: str) -> list[str]:
    """Return the files that a path, glob, directory or URL stands for."""
    if is_url(name):
        urls = matching_urls(name)
        if not urls:
            raise FileNotFoundError(f"no file matches the glob {name!r}")
        return urls
    try:
        mode = os.stat(name).st_mode
    except (FileNotFoundError, NotADirectoryError):
        if not glob.has_magic(name):
            raise FileNotFoundError(f"{name!r} does not exist") from None
        found = sorted(file for file in glob.glob(name, recursive=True) if os.path.isfile(file))
        if not found:
            raise FileNotFoundError(f"no file matches the glob {name!r}") from None
        return found
    if stat.S_ISDIR(mode):
        return _files_in(name)
    if not stat.S_ISREG(mode):
        raise InputError(
            f"{name!r} is a pipe or a device, which cannot be read in chunks; save its content to "
            "a file first"
        )
    return [name]


def _files_in(directory: str) -> list[str]:
    """Return the files with known endings in a directory and its subdirectories, sorted.

    Raises:
        ValueError: If there are no such files.
    """
    found = []
    for folder, folders, names in os.walk(directory):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            path = os.path.join(folder, name)
            if has_known_ending(name) and not name.startswith(".") and os.path.isfile(path):
                found.append(path)
    if not found:
        raise InputError(
            f"{directory!r} is a directory without text files (.txt, .md, .jsonl, .csv, .parquet, "
            "...); pass files or a glob"
        )
    return sorted(found)
