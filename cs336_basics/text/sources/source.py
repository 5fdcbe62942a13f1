"""Source: a file of a corpus, which answers the same questions in every format."""

from __future__ import annotations

import abc
import dataclasses
import os
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import IO, Any, ClassVar, NamedTuple

from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.messages import short_names, short_repr
from cs336_basics._support.urls import is_url
from cs336_basics.text.cuts import Cuts
from cs336_basics.text.storage import MAX_PIECE_BYTES, is_compressed, size_of

DEFAULT_BLOCK_SIZE = 1 << 20
"""Approximate number of bytes of text in a block. A block fits in the L2 cache of most CPUs."""


class TextBlock(NamedTuple):
    """A document, or a block of a document that can be split into pre-tokens on its own.

    Attributes:
        text: Bytes from a plain text file, which may be invalid UTF-8, or the text of a row.
        starts_document: Whether a document starts here. Otherwise, the text continues the document
            in the previous block.
        file: Name of the file, or "" for text in memory.
        place: For a row, a format string for its location, such as "the line at byte {:,}". None
            for a block of a plain text file.
        number: Number in `place`, or the byte offset of the block in the uncompressed file.
        bytes_read: Approximate number of stored bytes of the piece read so far, for progress bars.
        document, start: Number of the document, and the size in bytes of what precedes the text in
            it, for jobs that number documents.
    """

    text: str | bytes
    starts_document: bool
    file: str
    place: str | None = None
    number: int = 0
    bytes_read: int = 0
    document: int = 0
    start: int = 0

    @property
    def offset(self) -> int | None:
        """Byte offset of the text in the uncompressed plain text file. None for a row."""
        return self.number if self.place is None else None

    @property
    def row(self) -> str | None:
        """Location of the row in the file. None for a block of a plain text file."""
        return None if self.place is None else self.place.format(self.number)

    @property
    def origin(self) -> str:
        """Name of the file and location of the row, for messages."""
        return ", ".join(filter(None, (self.file, self.row)))


@dataclass(frozen=True)
class Piece:
    """A section of a file that any process or machine can read on its own.

    Pieces are picklable. The pieces of a source contain each of its texts exactly once.

    Attributes:
        source: The file.
        start, end: Nominal limits, whose unit depends on the format. The piece actually starts at
            the first boundary at or after `start`, and ends at the first one at or after `end`.
        num_bytes: Stored size of the piece, for progress bars.
    """

    source: Source
    start: int
    end: int
    num_bytes: int

    def texts(self, cuts: Cuts, block_size: int = DEFAULT_BLOCK_SIZE) -> Iterator[TextBlock]:
        """Yield the texts in the piece, in order.

        Args:
            cuts: Finder of offsets where plain text can be cut.
            block_size: Approximate size of the blocks of plain text.

        Raises:
            ValueError: If the file is truncated or damaged, or a line is not JSON or does not have
                the field. The message includes the file and the location.
            FileNotFoundError, OSError: If the file was deleted or cannot be read.
            ImportError: If a library for the format is not installed.
        """
        return self.source.read(self, cuts, block_size)


@dataclass(frozen=True)
class Source(abc.ABC):
    """A file in one format. Sources are immutable and picklable, and store no text.

    Use `open_sources` to create sources: it checks the files.

    Args:
        path: Path or URL of the file.
        errors: Name in ENCODING_ERRORS; see `Corpus`.
        max_piece_bytes: See `Corpus`.
    """

    path: str
    _: KW_ONLY
    errors: str = "replace"
    max_piece_bytes: int = MAX_PIECE_BYTES

    format: ClassVar[str]
    """Name in FORMATS."""

    option: ClassVar[str | None] = None
    """Argument of Corpus that names the text in each row: "field", "column" or None."""

    has_rows: ClassVar[bool] = True
    """Whether each row is a document. Otherwise, the file is a single document."""

    copy_ending: ClassVar[str]
    """Ending of the file name for `copy_at`."""

    @classmethod
    @abc.abstractmethod
    def opened(cls, path: str, name: str | None, is_certain: bool, **settings: Any) -> Source:
        """Check a file as far as possible without reading its text, and return its source.

        Args:
            path: Path or URL of the file.
            name: Value of the argument that `option` names.
            is_certain: Whether the user named the format.
            settings: `errors` and `max_piece_bytes`.
        """

    @abc.abstractmethod
    def pieces(self, num_bytes: int) -> list[Piece]:
        """Return the pieces of the file, of about `num_bytes` each, without reading its text.

        The sizes of the pieces add up to `num_bytes` of the source. Files that can be read only
        from their start, such as compressed files, have a single piece.

        Raises:
            FileNotFoundError, OSError: If the file was deleted or cannot be read.
        """

    @abc.abstractmethod
    def read(self, piece: Piece, cuts: Cuts, block_size: int) -> Iterator[TextBlock]:
        """See `Piece.texts`."""

    @property
    def num_bytes(self) -> int:
        """Stored size of the file in bytes, looked up on each access."""
        return size_of(self.path)

    @property
    def local_path(self) -> str | None:
        """Path of the file if it is uncompressed plain text on a local disk, else None.

        Compiled code may read such a file itself.
        """
        return None

    @property
    def is_compressed(self) -> bool:
        """Whether the file is compressed, so that it can be read only from its start."""
        return is_compressed(self.path)

    def texts(self, cuts: Cuts, block_size: int = DEFAULT_BLOCK_SIZE) -> Iterator[TextBlock]:
        """Yield all texts in the file; see `Piece.texts`."""
        done = 0
        for piece in self.pieces(max(1, self.num_bytes)):
            for block in piece.texts(cuts, block_size):
                yield block._replace(bytes_read=done + block.bytes_read) if done else block
            done += piece.num_bytes

    def settings(self) -> dict[str, Any]:
        """Return everything that determines the text, except the content of the file."""
        return {"format": self.format, "errors": self.errors}

    def absolute(self) -> Source:
        """Return the source with an absolute path, for processes in other directories."""
        path = self.path if is_url(self.path) else os.path.abspath(self.path)
        return dataclasses.replace(self, path=path)

    @abc.abstractmethod
    def copy_at(self, path: str) -> DivisibleSource:
        """Return the source for a file to which `write_copy` wrote."""

    @abc.abstractmethod
    def write_copy(self, file: IO[bytes], cuts: Cuts) -> None:
        """Write the documents of the file, uncompressed and in a format that can be divided.

        Raises:
            ValueError, OSError, ImportError: See `Piece.texts`.
        """


class DivisibleSource(Source):
    """A file that can be divided anywhere near a given offset unless it is compressed."""

    @abc.abstractmethod
    def boundary(self, file: IO[bytes], offset: int, cuts: Cuts) -> int:
        """Return the first offset at or after `offset` where the file can be divided.

        If there is none, return the size of the file. The result depends only on the content of the
        file and `offset`, so independent processes agree on where a piece ends and the next starts.

        Args:
            file: The open file.
            offset: Offset in bytes.
            cuts: See `Piece.texts`.

        Raises:
            ValueError: If the file was truncated, or has no boundary within `max_piece_bytes`.
        """

    def pieces(self, num_bytes: int) -> list[Piece]:
        """See `Source`."""
        size = self.num_bytes
        starts = range(0, size, size if self.is_compressed and size else num_bytes)
        return [
            Piece(self, start, min(start + starts.step, size), min(starts.step, size - start))
            for start in starts
        ]


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


def checked_column(path: str, column: str | None, names: Sequence[str]) -> str:
    """Return the column if it is one of a table's columns.

    Raises:
        MissingFieldError: If the column is missing or not given.
        ValueError: If there are no columns, or several columns have this name.
    """
    if not names:
        raise InputError("has no columns, so it contains no text", place=path)
    if column is None or column not in names:
        raise MissingFieldError(path, "column", column, names)
    if list(names).count(column) > 1:
        raise InputError(f"several columns are named {column!r}", place=path, remedy="rename them")
    return column
