"""Corpus: which text is read. Its files, and how the text is found in them.

| name ends in | is read as | by |
|---|---|---|
| `.jsonl`, `.ndjson` | one JSON object per line, the text in `field` | json |
| `.json` | as these if it holds one object per line, else refused | json |
| `.csv`, `.tsv` | rows, the text in `column`, which the first row names | csv |
| `.parquet` | rows, the text in `column` | pyarrow |
| `.arrow`, `.feather` | rows, the text in `column` | pyarrow |
| anything else | UTF-8 text; refused if it evidently is JSON lines, CSV or binary | |

`format` overrides this. Text, JSON lines and CSV may be compressed: `.gz` (gzip) or `.zst`
(Zstandard) after the name. Every file, and every row of a file of rows, is a separate document: no
word spans two of them.
"""

from __future__ import annotations

import copy
import dataclasses
import glob
import io
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Union

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.messages import short_repr
from cs336_basics._support.warnings import warn
from cs336_basics.pretokenization.reading.arrow import holds_text, open_arrow, open_parquet
from cs336_basics.pretokenization.reading.csv_rows import read_header
from cs336_basics.pretokenization.reading.encodings import BEGINNING, check_file, wide_encoding
from cs336_basics.pretokenization.reading.kinds import (
    HEAD,
    JSON,
    KINDS,
    check_is_text,
    has_known_ending,
    kind_of_json,
    named_kind,
)
from cs336_basics.pretokenization.reading.storage import (
    MAX_PIECE_BYTES,
    decompressed_blocks,
    is_compressed,
    is_url,
    open_path,
    size_of,
)

PathsLike = Union[str, "os.PathLike[str]", Iterable[Union[str, "os.PathLike[str]"]]]
"""A path, a glob, a directory, a URL, or several of them."""

ERRORS = ("replace", "strict")
"""The ways to treat bytes that are not UTF-8: read them as U+FFFD, or refuse them."""

ENCODING_ERRORS = (*ERRORS, "bytes")
"""Encoding can also keep them as the tokens of these bytes; see `exact_bytes.py`."""

DEFAULT_CHUNK_SIZE = 32 << 20
"""Bytes of text or JSON lines in a chunk of a corpus."""

WHOLE_FILE = -1
"""The end of a chunk that is a compressed file."""

_KINDS_WITH = {"field": ("jsonl",), "column": ("csv", "parquet", "arrow")}
"""An option of Corpus -> the kinds of files that need it."""

_FILES_WITH = {
    "field": "JSON lines (.jsonl, .ndjson)",
    "column": "Parquet, Arrow or CSV (.parquet, .arrow, .feather, .csv)",
}


@dataclass(frozen=True)
class Chunk:
    """A section of a file that can be counted by itself, also by another process or machine.

    Attributes:
        path: a file or a URL.
        kind: one of KINDS.
        start, end: nominal byte offsets. The chunk actually begins at the first safe cut (for JSON
            lines: the first line) at or after `start`, and ends at the first one at or after
            `end`, so that all chunks together cover the file once. For Parquet, indices of row
            groups; for Arrow, of record batches. With `end` `WHOLE_FILE`, the chunk is the whole
            file.
        num_bytes: stored size of the chunk, for progress.
        field: the field of JSON lines or the column of a table that has the text.
        errors: one of ENCODING_ERRORS.
        max_piece_bytes: as of the Corpus.
    """

    path: str
    kind: str
    start: int
    end: int
    num_bytes: int
    field: str | None
    errors: str
    max_piece_bytes: int = MAX_PIECE_BYTES


class MissingFieldError(ValueError):
    """Nothing says which field or column of a file has the text, or the file has no such column.

    Attributes:
        path: the file.
        option: the argument of Corpus to set, `"field"` (JSON lines) or `"column"` (tables).
        given: the value of that argument, or None.
        columns: the columns that the file has; empty for JSON lines.
    """

    def __init__(
        self, path: str, option: str, given: str | None = None, columns: Sequence[str] = ()
    ) -> None:
        super().__init__(path, option, given, columns)
        self.path = path
        self.option = option
        self.given = given
        self.columns = tuple(columns)

    @property
    def problem(self) -> str:
        """The message without advice, for a command that names its own option instead."""
        if self.option == "field":
            return f"{self.path} holds JSON lines, and nothing says which field has the text"
        columns = f"{self.path} has the columns {', '.join(self.columns)}"
        if self.given is None:
            return f"{columns}, and nothing says which one has the text"
        return f"{columns}, but not {self.given!r}"

    @property
    def example(self) -> str:
        """A value that the option might have; NAME where the columns do not tell."""
        if not self.columns or "text" in self.columns:
            return "text"
        return self.columns[0] if len(self.columns) == 1 else "NAME"

    def __str__(self) -> str:
        return f"{self.problem}: pass Corpus(..., {self.option}={self.example!r})"


@dataclass(frozen=True)
class Corpus:
    """The text of some files: which files, and where in them the text is.

    Everything that can be checked without reading the text is checked here: that the paths exist
    and are files, that one of them is not empty, and that a field or column is given where one is
    needed. A Corpus is immutable and can be pickled; it holds names, not text.

    Args:
        paths: a file, a directory, a glob such as `"data/*.txt"`, a URL that fsspec opens, or
            several of them. Their order is kept; the files of a glob are sorted. Of a directory,
            and of those in it, the files whose names end in `.txt`, `.md`, `.jsonl`, `.py` or
            another of `kinds.py`, sorted; hidden ones are left out.
        field: of JSON lines, the field that has the text.
        column: of CSV, Parquet and Arrow files, the column that has the text.
        format: how all files are read, one of KINDS; None: as their names and contents say.
        max_piece_bytes: most bytes of a row, and of text without a place to cut it; a pre-token
            has no more either. A longer one is refused before it fills the memory.
        errors: `"replace"` reads bytes that are not UTF-8 as U+FFFD, as `bytes.decode` does;
            `"strict"` refuses them; `"bytes"`, for encoding only, keeps them exactly.

    Attributes:
        files: the names of the files, globs and directories expanded.
        kinds: the kind of each file, one of KINDS.

    Raises:
        FileNotFoundError: a file does not exist, or no file matches a glob.
        ValueError: a path is a pipe, a device, or a directory without such files; all files are
            empty; a file is an archive or an array, or begins with the byte order mark of UTF-16
            or UTF-32 (`"bytes"` takes these); without a `format`, one that should be plain text is
            evidently JSON lines, CSV or binary; there is a `field` and no file of JSON lines, or a
            `column` and no file with columns; `errors` is not one of ENCODING_ERRORS, or `format`
            of KINDS.
        MissingFieldError: a file holds JSON lines and there is no `field`, or a table and there is
            no `column`. (It is a ValueError. `chunks` checks that tables have the column.)
        TypeError: a path is not a str or Path; `field` or `column` is not a str.

    Warns:
        UserWarning: a file looks like UTF-16 or UTF-32 without a byte order mark.
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
            raise ValueError(
                f"format is {short_repr(self.format)}: it must be one of {', '.join(KINDS)}, or "
                "None, for what names and contents say"
            )
        checked_integer("max_piece_bytes", self.max_piece_bytes, 1, note=" byte")
        files = expand_paths(self.paths)
        object.__setattr__(self, "files", files)
        if not files:
            raise ValueError("paths is empty: name at least one file")
        object.__setattr__(self, "kinds", kinds_of(files, self.format))
        for file, kind in zip(files, self.kinds, strict=True):
            self._check_field(file, kind)
        check_options_are_used([self], field=self.field, column=self.column)
        if not any(is_url(file) or os.path.getsize(file) for file in files):
            shown = ", ".join(map(repr, files[:3])) + (", ..." if len(files) > 3 else "")
            raise ValueError(f"{shown} is empty: name a file that contains text")
        for file, kind in zip(files, self.kinds, strict=True):
            self._check_beginning_of(file, kind)

    @classmethod
    def of(cls, corpus: Corpus | PathsLike) -> Corpus:
        """Return `corpus` itself if it is a Corpus, else the Corpus of these paths."""
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
        """Return the Corpus of these paths with the field and column only if a file needs them.

        For several corpora of different kinds with the same options; `check_options_are_used`
        checks that one of them needs each.
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
        """The stored size of each file in bytes, read at each call."""
        return tuple(size_of(file) for file in self.files)

    @property
    def num_bytes(self) -> int:
        """The stored size of all files in bytes, read at each call."""
        return sum(self.sizes)

    def only(self, files: Iterable[str]) -> Corpus:
        """Return this corpus with only some of its files, or none, or parts of them."""
        chosen = copy.copy(self)
        known = dict(zip(self.files, self.kinds, strict=True))
        object.__setattr__(chosen, "files", tuple(files))
        object.__setattr__(chosen, "paths", chosen.files)
        kinds = (known.get(file) or named_kind(file) for file in chosen.files)
        object.__setattr__(chosen, "kinds", tuple(kinds))
        return chosen

    @property
    def plain(self) -> tuple[bool, ...]:
        """For each file, whether it is uncompressed text on a local disk."""
        return tuple(
            kind == "text" and not is_compressed(file) and not is_url(file)
            for file, kind in zip(self.files, self.kinds, strict=True)
        )

    def by_plainness(self) -> tuple[Corpus, Corpus]:
        """Return this corpus with the files of plain text only, and with all others only.

        Compiled code reads plain text by itself; everything else goes through `readers.py`.
        """
        files = list(zip(self.files, self.plain, strict=True))
        return (
            self.only(file for file, is_plain in files if is_plain),
            self.only(file for file, is_plain in files if not is_plain),
        )

    def chunks(self, chunk_size: int = DEFAULT_CHUNK_SIZE) -> list[Chunk]:
        """Return the chunks of all files, without reading their text.

        Args:
            chunk_size: bytes of text or JSON lines in a chunk. Compressed files are not divided,
                and tables only between row groups or record batches.

        Raises:
            FileNotFoundError: a file vanished.
            MissingFieldError: a table lacks the column.
            ValueError: a table is damaged, or its column does not hold strings.
            ImportError: a library for the format is missing; names the command that installs it.
        """
        chunk_size = checked_integer("chunk_size", chunk_size, 1, note=" byte")
        chunks = [
            chunk
            for file, kind in zip(self.files, self.kinds, strict=True)
            for chunk in self._chunks_of(file, kind, chunk_size)
        ]
        most = self.max_piece_bytes
        return [dataclasses.replace(chunk, max_piece_bytes=most) for chunk in chunks]

    def _chunks_of(self, file: str, kind: str, chunk_size: int) -> Iterator[Chunk]:
        if kind == "parquet":
            yield from self._row_groups(file)
            return
        if kind == "arrow":
            yield from self._record_batches(file)
            return
        size = size_of(file)
        if kind == "csv":  # a row may have several lines, so that it has no safe cuts
            if size:
                self._check_column(file, self._header(file))
                yield Chunk(file, kind, 0, WHOLE_FILE, size, self.column, self.errors)
            return
        field = self.field if kind == "jsonl" else None
        if is_compressed(file):
            yield Chunk(file, kind, 0, WHOLE_FILE, size, field, self.errors)
            return
        for start in range(0, size, chunk_size):
            end = min(start + chunk_size, size)
            yield Chunk(file, kind, start, end, end - start, field, self.errors)

    def _row_groups(self, file: str) -> Iterator[Chunk]:
        with open_path(file) as opened:
            parquet = open_parquet(opened, file)
            self._check_column(file, parquet.schema_arrow.names, parquet.schema_arrow)
            for group in range(parquet.num_row_groups):
                size = parquet.metadata.row_group(group).total_byte_size
                yield Chunk(file, "parquet", group, group + 1, size, self.column, self.errors)

    def _record_batches(self, file: str) -> Iterator[Chunk]:
        with open_path(file) as opened:
            reader = open_arrow(opened, file)
            self._check_column(file, reader.schema.names, reader.schema)
            size, column, errors = size_of(file), self.column, self.errors
            num_batches = getattr(reader, "num_record_batches", None)
            if num_batches is None:  # a stream is read from its beginning
                yield Chunk(file, "arrow", 0, WHOLE_FILE, size, column, errors)
                return
            for batch in range(num_batches):
                # The sizes of batches are not known before they are read: they share that of all.
                share = size * (batch + 1) // num_batches - size * batch // num_batches
                yield Chunk(file, "arrow", batch, batch + 1, share, column, errors)

    def _check_column(self, file: str, names: Sequence[str], schema: Any = None) -> None:
        """Check that a table has the column, and that it holds strings."""
        if self.column is None or self.column not in names:
            raise MissingFieldError(file, "column", self.column, names)
        if names.count(self.column) > 1:
            raise ValueError(f"{file}: several columns have the name {self.column!r}: rename them")
        if schema is not None and not holds_text(kind := schema.field(self.column).type):
            raise ValueError(f"{file}: the column {self.column!r} holds {kind}, not strings")

    def _header(self, file: str) -> list[str]:
        """Return the names of the columns of a CSV file."""
        with open_path(file) as opened:
            return read_header(opened, file, self.max_piece_bytes)

    def _check_field(self, file: str, kind: str) -> None:
        if kind == "jsonl" and self.field is None:
            raise MissingFieldError(file, "field")
        if kind == "csv" and self.column is None:
            raise MissingFieldError(file, "column", None, self._header(file))
        if kind in ("parquet", "arrow") and self.column is None:
            with open_path(file) as opened:
                if kind == "parquet":
                    schema = open_parquet(opened, file).schema_arrow
                else:
                    schema = open_arrow(opened, file).schema
            raise MissingFieldError(file, "column", None, schema.names)

    def _check_beginning_of(self, file: str, kind: str) -> None:
        """Check that a local file holds text in UTF-8, as far as its first bytes show it.

        Raises:
            ValueError: see `check_file` and `check_is_text`.
        """
        if is_url(file) or kind in ("parquet", "arrow"):
            return
        head = _head_of(file)
        is_exact = self.errors == "bytes"
        wide = None if is_exact else wide_encoding(head[:BEGINNING])
        if not is_exact:
            check_file(head[:BEGINNING], file)
        if wide is not None:
            warn(
                f"{file} looks like {wide}, but is read as UTF-8: every NUL byte is a character; "
                f"convert it with `iconv -f {wide} -t UTF-8`"
            )
        elif kind == "text" and self.format is None:
            check_is_text(head, file, may_be_binary=is_exact)


def _head_of(file: str) -> bytes:
    """Return the first bytes of a file, decompressed.

    None, where they cannot be read: whoever reads the text reports that.
    """
    try:
        with open_path(file) as opened:
            if is_compressed(file):
                return next(decompressed_blocks(opened, file, HEAD), b"")
            return opened.read(HEAD)
    except (OSError, ValueError, ImportError):
        return b""


def kinds_of(files: Iterable[str], format: str | None = None) -> tuple[str, ...]:
    """Return the kind of each file: the format, or what its name and content say.

    Raises:
        ValueError: a .json file is one value.
    """
    return tuple(_kind_of(file, format) for file in files)


def _kind_of(file: str, format: str | None) -> str:
    if format is not None:
        return format
    kind = named_kind(file)
    return kind_of_json(_head_of(file), file) if kind == JSON else kind


def check_options_are_used(
    corpora: Sequence[Corpus], *, prefix: str = "", field: str | None, column: str | None
) -> None:
    """Check that one of several corpora has a use for each of these options of `Corpus.fitting`.

    Args:
        corpora: all that were made with the options.
        prefix: what the message has before the name of the option.
        field, column: as they were given.

    Raises:
        ValueError: no file has a field or column.
        TypeError: one is not a str.
    """
    kinds = {kind for corpus in corpora for kind in corpus.kinds}
    for option, given in (("field", field), ("column", column)):
        if given is not None and not isinstance(given, str):
            raise TypeError(f"{prefix}{option} is {short_repr(given)}: it must be a str or None")
        if given is not None and kinds.isdisjoint(_KINDS_WITH[option]):
            raise ValueError(
                f"{prefix}{option} is {short_repr(given)}, but no file is {_FILES_WITH[option]}: "
                "omit it, or say how the files are read with format="
                f'"{_KINDS_WITH[option][0]}"'
            )


def check_errors(errors: str, allowed: Sequence[str] = ERRORS) -> None:
    """Raise ValueError unless `errors` is one of those that are allowed."""
    if errors not in allowed:
        note = ", which is for encoding only" if errors in ENCODING_ERRORS else ""
        raise ValueError(
            f"errors is {short_repr(errors)}{note}: it must be one of {', '.join(allowed)}"
        )


def expand_paths(paths: PathsLike) -> tuple[str, ...]:
    """Return the names of the files of paths, globs and directories, in their order.

    Those of a glob or a directory are sorted.

    Raises:
        FileNotFoundError, ValueError, TypeError: see `Corpus`.
    """
    return tuple(file for name in _names_of(paths) for file in _expand(name))


def _names_of(paths: object) -> tuple[str, ...]:
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    if isinstance(paths, (bytes, io.IOBase)) or not isinstance(paths, Iterable):
        raise TypeError(f"paths is {short_repr(paths)}: it must be a path (str or Path) or several")
    several = []
    for path in paths:  # the rows of a dataset may have no end: the first of them is refused
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(
                f"paths holds {short_repr(path)}: name files by str or Path (for rows in memory "
                "there are train_from_iterator and encode_rows)"
            )
        several.append(os.fspath(path))
    return tuple(several)


def _expand(name: str) -> list[str]:
    """Return the files of a path or glob, after checking that they are files."""
    if is_url(name):
        return [name]
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
        raise ValueError(
            f"{name!r} is a pipe or a device, which cannot be read in chunks: write it to a file "
            "first"
        )
    return [name]


def _files_in(directory: str) -> list[str]:
    """Return the files of a directory, and of those in it, with known endings, sorted.

    Raises:
        ValueError: there is none.
    """
    found, others = [], set()
    for folder, folders, names in os.walk(directory):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            path = os.path.join(folder, name)
            if name.startswith(".") or not os.path.isfile(path):
                continue
            if has_known_ending(name):
                found.append(path)
            else:
                others.add(f"*{os.path.splitext(name)[1]}")
    if not found:
        advice = "name files"
        if others:
            example = os.path.join(directory, "**", min(others))
            advice = f"name the files that are meant, such as {example!r}"
        raise ValueError(
            f"{directory!r} is a directory without a file that ends like a text (.txt, .md, "
            f".jsonl, .csv, .parquet, ...): {advice}"
        )
    return sorted(found)
