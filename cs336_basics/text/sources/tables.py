"""Parquet and Arrow: one column of a table in one of these formats.

An Arrow file has one of two IPC formats: the file format (also used by `.feather` version 2) or the
stream format (used by the Hugging Face datasets cache). pyarrow is imported on first use.
"""

from __future__ import annotations

import abc
import os
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import IO, Any, ClassVar

from cs336_basics._support.errors import InputError
from cs336_basics.text.arrow import array_texts, explained, holds_text, import_pyarrow
from cs336_basics.text.cuts import Cuts
from cs336_basics.text.sources.jsonl import RowSource
from cs336_basics.text.sources.source import Piece, TextBlock, checked_column
from cs336_basics.text.storage import open_path, piece_too_long

_ROWS_IN_A_BATCH = 64
"""Number of rows in a Parquet batch. All rows of a batch are in memory, and each row may decompress
to megabytes."""
_FILE_MAGIC = b"ARROW1"


@dataclass(frozen=True)
class TableSource(RowSource):
    """One column of a table. Each part of the file, such as a row group, is a piece.

    Args:
        parts: Size of each part, for progress bars. None if the file can be read only from its
            start.
    """

    _: KW_ONLY
    parts: tuple[int, ...] | None

    option = "column"
    part_name: ClassVar[str]
    """Name of a part, for messages."""

    @classmethod
    def opened(cls, path: str, name: str | None, is_certain: bool, **settings: Any) -> TableSource:
        """See `Source`."""
        with open_path(path) as file:
            table = cls.table(file, path)
            name = checked_column(path, name, table.schema.names)
            if not holds_text(found := table.schema.field(name).type):
                raise InputError(f"column {name!r} must contain strings, got {found}", place=path)
            return cls(path, field=name, parts=table.part_sizes(), **settings)

    @staticmethod
    @abc.abstractmethod
    def table(file: IO[bytes], path: str) -> Table:
        """Return the table in an open file.

        Raises:
            ValueError: If the file is damaged or has another format.
            ImportError: If pyarrow is not installed.
        """

    def pieces(self, num_bytes: int) -> list[Piece]:
        """Return one piece for each part. The limits are indices of parts."""
        size = self.num_bytes
        if self.parts is None:
            return [Piece(self, 0, 1, size)]
        total, done, pieces = max(1, sum(self.parts)), 0, []
        for index, part in enumerate(self.parts):  # scaled, because parts may be compressed
            share = (done + part) * size // total - done * size // total
            pieces.append(Piece(self, index, index + 1, share))
            done += part
        return pieces

    def read(self, piece: Piece, cuts: Cuts, block_size: int) -> Iterator[TextBlock]:
        """Yield the text of each row. Rows whose text is null are skipped."""
        path, limit = self.path, self.max_piece_bytes
        part = None if self.parts is None else piece.start
        where = "" if part is None else f" of {self.part_name} {part}"
        place = f"row {{:,}}{where}"
        row = 0
        with open_path(path) as file:
            table = self.table(file, path)
            batches = table.batches(self.field, part)
            while True:
                with explained(f"{path}, row {row:,}{where} is damaged"):
                    batch = next(batches, None)
                    if batch is None:
                        return
                    texts = array_texts(batch.column(0))
                num_rows = 0 if part is None else table.num_rows(part, batch)
                for text in texts:
                    if text is not None:
                        if len(text) > limit:
                            raise piece_too_long(f"{path}, {place.format(row)}", limit)
                        if part is None:
                            done = min(file.tell(), piece.num_bytes)
                        else:
                            done = piece.num_bytes * (row + 1) // num_rows
                        yield TextBlock(text, True, path, place, row, min(done, piece.num_bytes))
                    row += 1


class Parquet(TableSource):
    """One column of a Parquet file. A piece is a row group."""

    format = "parquet"
    part_name = "row group"

    @staticmethod
    def table(file: IO[bytes], path: str) -> Table:
        """See `TableSource`."""
        return ParquetTable(file, path)


class Arrow(TableSource):
    """One column of an Arrow file. A piece is a record batch, or all of a stream."""

    format = "arrow"
    part_name = "batch"

    @staticmethod
    def table(file: IO[bytes], path: str) -> Table:
        """See `TableSource`."""
        return ArrowTable(file, path)


class Table(abc.ABC):
    """An open table.

    Attributes:
        schema: The `pyarrow.Schema`.
    """

    schema: Any

    @abc.abstractmethod
    def part_sizes(self) -> tuple[int, ...] | None:
        """Return the size of each part, or None if the file can be read only from its start."""

    @abc.abstractmethod
    def num_rows(self, part: int, batch: Any) -> int:
        """Return the number of rows in a part. `batch` is the first or a later batch of it."""

    @abc.abstractmethod
    def batches(self, column: str, part: int | None) -> Iterator[Any]:
        """Return an iterator over one column as record batches, of the whole file or of one part.

        Raises:
            pyarrow.ArrowException, OSError: If the file is damaged.
        """


class ParquetTable(Table):
    """An open Parquet file."""

    def __init__(self, file: IO[bytes], path: str) -> None:
        import_pyarrow(path)
        import pyarrow.parquet as parquet

        with explained(f"{path} is damaged or not a Parquet file"):
            self._reader = parquet.ParquetFile(_BoundedFile(file))
            self.schema = self._reader.schema_arrow
            self.schema.names  # noqa: B018 -- names are decoded when they are read

    def part_sizes(self) -> tuple[int, ...]:
        """Return the uncompressed size of each row group."""
        metadata = self._reader.metadata
        return tuple(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))

    def num_rows(self, part: int, batch: Any) -> int:
        """See `Table`."""
        return int(self._reader.metadata.row_group(part).num_rows)

    def batches(self, column: str, part: int | None) -> Iterator[Any]:
        """See `Table`."""
        parts = None if part is None else [part]
        found: Iterator[Any] = self._reader.iter_batches(
            _ROWS_IN_A_BATCH, row_groups=parts, columns=[column]
        )
        return found


class ArrowTable(Table):
    """An open Arrow file, in the file format or the stream format."""

    def __init__(self, file: IO[bytes], path: str) -> None:
        pyarrow = import_pyarrow(path)
        self._is_stream = file.read(len(_FILE_MAGIC)) != _FILE_MAGIC
        self._num_bytes = file.seek(0, os.SEEK_END)
        with explained(f"{path} is damaged or not an Arrow file (IPC file or stream format)"):
            open_reader = pyarrow.ipc.open_stream if self._is_stream else pyarrow.ipc.open_file
            self._reader = open_reader(_BoundedFile(file))
            self.schema = self._reader.schema
            self.schema.names  # noqa: B018 -- as above

    def part_sizes(self) -> tuple[int, ...] | None:
        """Return the size of each record batch. They are assumed to be equally large."""
        if self._is_stream:
            return None
        number, size = self._reader.num_record_batches, self._num_bytes
        return tuple(size * (i + 1) // number - size * i // number for i in range(number))

    def num_rows(self, part: int, batch: Any) -> int:
        """See `Table`."""
        return int(batch.num_rows)

    def batches(self, column: str, part: int | None) -> Iterator[Any]:
        """See `Table`."""
        if self._is_stream:
            return (batch.select([column]) for batch in self._reader)
        indices = range(self._reader.num_record_batches) if part is None else [part]
        return (self._reader.get_batch(index).select([column]) for index in indices)


class _BoundedFile:
    """A file whose `read` requests at most the remaining bytes, even for a damaged size."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._size = file.seek(0, os.SEEK_END)
        file.seek(0)

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._file.tell())
        return self._file.read(left if size < 0 else min(size, left))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
