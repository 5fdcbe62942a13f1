"""Read string columns from Parquet files, Arrow files and Arrow tables in memory.

An Arrow file has one of two IPC formats: the file format (also used by `.feather` version 2) or the
stream format (used by the Hugging Face datasets cache). pyarrow is imported on first use.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import IO, Any

from cs336_basics._support.errors import InputError, UnavailableError
from cs336_basics._support.messages import short_reason

_ROWS_IN_A_BATCH = 64
"""Number of rows in a Parquet batch. All rows of a batch are in memory, and each row may decompress
to megabytes."""
_FILE_MAGIC = b"ARROW1"


def import_pyarrow(what: str) -> Any:
    """Import and return pyarrow. If it is missing, the ImportError says how to install it."""
    try:
        import pyarrow.ipc
    except ImportError:
        raise UnavailableError(
            f"reading {what} needs pyarrow", remedy="run pip install 'cs336-basics[parquet]'"
        ) from None
    return pyarrow


class TableFile:
    """An open Parquet or Arrow file.

    Args:
        file: File opened for reading in binary mode.
        path: Name of the file, for messages.
        kind: `"parquet"` or `"arrow"`.

    Attributes:
        schema: The `pyarrow.Schema`.

    Raises:
        ValueError: If the file is damaged or has another format.
        ImportError: If pyarrow is not installed.
    """

    def __init__(self, file: IO[bytes], path: str, kind: str) -> None:
        pyarrow = import_pyarrow(path)

        self._path = path
        self._kind = kind
        self._is_stream = kind == "arrow" and file.read(len(_FILE_MAGIC)) != _FILE_MAGIC
        self._num_bytes = file.seek(0, os.SEEK_END)
        bounded = _BoundedFile(file)
        if kind == "parquet":
            import pyarrow.parquet as parquet

            with explained(f"{path} is damaged or not a Parquet file"):
                self._reader = parquet.ParquetFile(bounded)
                self.schema = self._reader.schema_arrow
                self.schema.names  # noqa: B018 -- names are decoded when they are read
        else:
            with explained(f"{path} is damaged or not an Arrow file (IPC file or stream format)"):
                open_reader = pyarrow.ipc.open_stream if self._is_stream else pyarrow.ipc.open_file
                self._reader = open_reader(bounded)
                self.schema = self._reader.schema
                self.schema.names  # noqa: B018 -- as above

    def part_sizes(self) -> list[int] | None:
        """Return the size of each part, a row group (uncompressed) or a record batch.

        Record batches are assumed to be equally large. Return None for an Arrow stream, which can
        be read only from its start.
        """
        if self._is_stream:
            return None
        if self._kind == "parquet":
            metadata = self._reader.metadata
            return [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
        number, size = self._reader.num_record_batches, self._num_bytes
        return [size * (i + 1) // number - size * i // number for i in range(number)]

    def num_rows(self, part: int, batch: Any) -> int:
        """Return the number of rows in a part. `batch` is from it; an Arrow part is one batch."""
        if self._kind == "parquet":
            return int(self._reader.metadata.row_group(part).num_rows)
        return int(batch.num_rows)

    def batches(self, column: str, part: int | None = None) -> Iterator[Any]:
        """Yield one column as record batches, of the whole file or of one part.

        Raises:
            ValueError: If the file is damaged.
        """
        if self._is_stream:
            found = (batch.select([column]) for batch in self._reader)
        elif self._kind == "parquet":
            parts = None if part is None else [part]
            found = self._reader.iter_batches(_ROWS_IN_A_BATCH, row_groups=parts, columns=[column])
        else:
            indices = range(self._reader.num_record_batches) if part is None else [part]
            found = (self._reader.get_batch(index).select([column]) for index in indices)
        row = 0
        while True:
            with explained(f"{self._path}, row {row:,}{of_part(self._kind, part)} is damaged"):
                batch = next(found, None)
            if batch is None:
                return
            yield batch
            row += batch.num_rows


def of_part(kind: str, part: int | None) -> str:
    """Return " of row group N" or " of batch N" for messages, or "" for a whole file."""
    name = "row group" if kind == "parquet" else "batch"
    return "" if part is None else f" of {name} {part}"


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


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    """Convert exceptions that pyarrow raises for damaged data to ValueError.

    OSErrors with an errno propagate unchanged. MemoryErrors are raised again with the message.

    Args:
        what: Error message, to which the reason is appended.
    """
    import pyarrow

    try:
        yield
    except MemoryError as error:  # including pyarrow's, which is also an ArrowException
        raise MemoryError(f"{what}, or out of memory: {short_reason(error)}") from error
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InputError(f"{what}: {short_reason(error)}") from error


def holds_text(kind: Any) -> bool:
    """Return whether columns of this Arrow type contain strings or bytes."""
    import pyarrow

    if pyarrow.types.is_dictionary(kind):
        kind = kind.value_type
        if "view" in str(kind):  # its views may share their bytes, see below
            return False
    return str(kind) in _AS_BYTES or str(kind) in _AS_BYTES.values()


_AS_BYTES = {"string": "binary", "large_string": "large_binary", "string_view": "binary_view"}
"""Mapping from string types to the bytes types with the same memory layout."""
_MIN_VIEWS_AT_ONCE = 16
_MAX_BYTES_AT_ONCE = 1 << 26
"""Views are converted in slices that cannot exceed this size or have the minimum of rows. Views may
share their bytes, so a small file can contain more text than fits in memory."""


def array_texts(array: Any) -> Iterator[bytes | None]:
    """Return an iterator over the values in a pyarrow.Array of strings as UTF-8, None for null.

    Invalid UTF-8 is returned unchanged; the caller checks it.

    Raises:
        pyarrow.ArrowException: If the offsets exceed the data, as in a damaged file. It is raised
            before the first value.
    """
    import pyarrow

    if pyarrow.types.is_dictionary(array.type):
        array.validate(full=True)
        used = array.indices.drop_null().unique()  # batches may share a large dictionary
        texts = dict(zip(used.to_pylist(), array_texts(array.dictionary.take(used)), strict=True))
        return (None if index is None else texts[index] for index in array.indices.to_pylist())
    as_bytes = _AS_BYTES.get(str(array.type))
    if as_bytes is not None:
        array = array.view(getattr(pyarrow, as_bytes)())
    array.validate(full=True)
    if "view" not in str(array.type):
        return iter(array.to_pylist())
    step = max(_MIN_VIEWS_AT_ONCE, _MAX_BYTES_AT_ONCE // (array.nbytes + 1))
    slices = (array.slice(start, step) for start in range(0, len(array), step))
    return (text for rows in slices for text in rows.to_pylist())
