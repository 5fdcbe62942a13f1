"""Corpus: a set of files that are read as text.

The formats of files are in `sources/`; docs/train-on-your-files.md lists them. Each plain text file
and each row of another file is a separate document: no word spans two documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cs336_basics._support.arguments import checked_bool, checked_integer
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.messages import short_names, short_repr
from cs336_basics.text.paths import PathsLike, expand_paths
from cs336_basics.text.sources import Piece, Source, check_options_are_used, open_sources
from cs336_basics.text.storage import MAX_PIECE_BYTES
from cs336_basics.text.utf8 import ENCODING_ERRORS, check_errors

DEFAULT_PIECE_SIZE = 32 << 20
"""Default number of stored bytes in a piece."""


class Corpus:
    """A set of text files, and the field or column that contains the text.

    The constructor checks everything that can be checked without reading the text: paths, empty
    files, formats, missing options, and the columns of tables. A Corpus is immutable and picklable.
    It stores file names, not text.

    Args:
        paths: File, directory, glob such as `"data/*.txt"`, or URL that fsspec can open, or a list
            of these, in order. A directory is searched recursively for files whose names end in
            `.txt`, `.md`, `.jsonl`, `.py` or another ending listed in `kinds.py`. Hidden files are
            skipped, and so are files with a single JSON value, such as package.json, unless
            `format` is given. Below a directory and below the `**` of a glob, run directories,
            virtual environments, node_modules and caches are not entered. A path may start with
            `~`. In a URL, only `*` is a wildcard; the address of a web page has no wildcards. The
            files found by a glob or in a directory are sorted.
        field: JSON Lines field that contains the text. If it occurs twice in a line, the last
            value counts.
        column: CSV, Parquet or Arrow column that contains the text. In a CSV file, the delimiter is
            the one with which the first row contains this name.
        errors: `"replace"` reads invalid UTF-8 as U+FFFD, as `bytes.decode` does. `"strict"`
            rejects it. `"bytes"`, for encoding only, preserves it.
        format: Format of all files, a name in FORMATS. Defaults to detection from name and content.
        max_piece_bytes: Maximum number of bytes in a row and in text without a safe cut, and thus
            in a pre-token. Anything longer is rejected before it fills the memory.
        allow_unused: Whether to ignore `field` or `column` if no file uses it. Several corpora of
            different formats can then share the options; call `check_options_are_used` to check
            that at least one corpus uses each.

    Attributes:
        sources: The files, in order, after expanding globs and directories.

    Raises:
        FileNotFoundError: If a file does not exist, or no file matches a glob.
        ValueError: If a path is a pipe, a device, or a directory without text files; if all files
            are empty; if a file is an archive or an array, or starts with the byte order mark of
            UTF-16 or UTF-32 (unless `errors` is `"bytes"`); if `format` is not given and a plain
            text file is evidently JSON Lines, CSV, binary, or UTF-16 or UTF-32 without a byte
            order mark; if a table is damaged, or its column does not contain strings; if `field` or
            `column` is given but no file uses it (unless `allow_unused` is true); or if `errors` or
            `format` is unknown.
        MissingFieldError: If a file contains JSON Lines and `field` is missing, or a file is a
            table without the column `column`. MissingFieldError is a subclass of ValueError.
        ImportError: If a library for the format of a table is not installed.
        TypeError: If a path is not a str or Path, or `field` or `column` is not a str.

    Warns:
        UserWarning: If a file looks like UTF-16 or UTF-32 without a byte order mark, and `format`
            is given.

    Example:
        >>> from cs336_basics.text import Corpus
        >>> corpus = Corpus("*.txt", errors="strict")
        >>> "stories.txt" in corpus.files, corpus.num_bytes > 0
        (True, True)
    """

    sources: tuple[Source, ...]
    errors: str

    def __init__(
        self,
        paths: PathsLike,
        *,
        field: str | None = None,
        column: str | None = None,
        errors: str = "replace",
        format: str | None = None,
        max_piece_bytes: int = MAX_PIECE_BYTES,
        allow_unused: bool = False,
    ) -> None:
        check_errors(errors, ENCODING_ERRORS)
        checked_integer("max_piece_bytes", max_piece_bytes, 1, note=" byte")
        for option, value in (("field", field), ("column", column)):
            if not isinstance(value, (str, type(None))):
                raise InputTypeError(
                    f"must be a str or None, got {short_repr(value)}", argument=option
                )
        files = expand_paths(paths, format, field)
        if not files:
            raise InputError("must contain at least one file", argument="paths")
        sources = open_sources(
            files,
            field=field,
            column=column,
            errors=errors,
            format=format,
            max_piece_bytes=max_piece_bytes,
        )
        if not checked_bool("allow_unused", allow_unused):
            check_options_are_used(sources, field=field, column=column)
        self._set(sources, errors)

    def _set(self, sources: Iterable[Source], errors: str) -> None:
        self.sources = tuple(sources)
        self.errors = errors

    @classmethod
    def of(cls, corpus: Corpus | PathsLike) -> Corpus:
        """Return `corpus` if it is a Corpus. Otherwise, return a Corpus of these paths."""
        return corpus if isinstance(corpus, Corpus) else cls(corpus)

    @classmethod
    def of_sources(cls, sources: Sequence[Source]) -> Corpus:
        """Return a corpus of sources that have been checked, such as some of another corpus."""
        corpus = cls.__new__(cls)
        corpus._set(sources, sources[0].errors)
        return corpus

    @property
    def files(self) -> tuple[str, ...]:
        """Names of all files, after expanding globs and directories."""
        return tuple(source.path for source in self.sources)

    @property
    def num_bytes(self) -> int:
        """Stored size of all files in bytes, looked up on each access."""
        return sum(source.num_bytes for source in self.sources)

    def pieces(self, num_bytes: int = DEFAULT_PIECE_SIZE) -> list[Piece]:
        """Return the pieces of all files, without reading their text.

        Args:
            num_bytes: Approximate number of stored bytes in a piece. Compressed files and CSV files
                are not divided. Tables are divided between row groups or record batches.

        Raises:
            FileNotFoundError: If a file was deleted.
        """
        num_bytes = checked_integer("num_bytes", num_bytes, 1, note=" byte")
        return [piece for source in self.sources for piece in source.pieces(num_bytes)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Corpus) and self.sources == other.sources

    def __hash__(self) -> int:
        return hash(self.sources)

    def __repr__(self) -> str:
        return f"<Corpus: {short_names(self.files)}>"
