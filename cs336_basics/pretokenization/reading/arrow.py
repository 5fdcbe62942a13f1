"""Read string columns from Parquet files, Arrow files and Arrow tables in memory.

An Arrow file has one of two IPC formats: the file format (also used by `.feather` version 2) or the
stream format (used by the Hugging Face datasets cache). pyarrow is imported on first use.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import IO, Any

from cs336_basics._support.messages import short_reason

_ROWS_IN_A_BATCH = 64
"""Number of rows in a Parquet batch. All rows of a batch are in memory, and each row may decompress
to megabytes."""
_FILE_MAGIC = b"ARROW1"


def import_pyarrow(what: str) -> Any:
    """Import and return pyarrow. If it is missing, the ImportError says how to install it."""
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError:
        raise ImportError(
            f"reading {what} needs pyarrow; run pip install 'cs336-basics[parquet]'"
        ) from None
    return pyarrow


def open_parquet(file: IO[bytes], path: str) -> Any:
    """Return a `pyarrow.parquet.ParquetFile` for an open file.

    Raises:
        ValueError: If the file is damaged or not a Parquet file.
        ImportError: If pyarrow is not installed.
    """
    import_pyarrow(path)
    import pyarrow.parquet as parquet

    with explained(f"{path} is damaged or not a Parquet file"):
        reader = parquet.ParquetFile(_BoundedFile(file))
        reader.schema_arrow.names  # noqa: B018 -- names are decoded when they are read
    return reader


def open_arrow(file: IO[bytes], path: str) -> Any:
    """Return a RecordBatchFileReader or RecordBatchStreamReader for an open Arrow file.

    Only a RecordBatchFileReader has `num_record_batches` and `get_batch`.

    Raises:
        ValueError: If the file is damaged or not an Arrow file.
        ImportError: If pyarrow is not installed.
    """
    pyarrow = import_pyarrow(path)
    is_file = file.read(len(_FILE_MAGIC)) == _FILE_MAGIC
    file.seek(0)
    with explained(f"{path} is damaged or not an Arrow file (IPC file or stream format)"):
        open_reader = pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream
        reader = open_reader(_BoundedFile(file))
        reader.schema.names  # noqa: B018 -- names are decoded when they are read
    return reader


class _BoundedFile:
    """A file whose `read` stays within the remaining bytes, even if damaged data asks for more."""

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
    pyarrow = import_pyarrow(what)
    try:
        yield
    except MemoryError as error:  # including pyarrow's, which is also an ArrowException
        raise MemoryError(f"{what}, or out of memory: {short_reason(error)}") from error
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f"{what}: {short_reason(error)}") from error


def holds_text(kind: Any) -> bool:
    """Return whether columns of this Arrow type contain strings or bytes."""
    pyarrow = import_pyarrow("Arrow data")
    if pyarrow.types.is_dictionary(kind):
        kind = kind.value_type
    return str(kind) in _AS_BYTES or str(kind) in _AS_BYTES.values()


_AS_BYTES = {"string": "binary", "large_string": "large_binary", "string_view": "binary_view"}
"""Mapping from string types to the bytes types with the same memory layout."""


def array_texts(array: Any) -> list[bytes | None]:
    """Return the values in a pyarrow.Array of strings as UTF-8, with None for null.

    Invalid UTF-8 is returned unchanged; the caller checks it.

    Raises:
        pyarrow.ArrowException: If the offsets exceed the data, as in a damaged file.
    """
    pyarrow = import_pyarrow("Arrow data")
    if pyarrow.types.is_dictionary(array.type):
        array.validate(full=True)
        array = array.dictionary_decode()
    as_bytes = _AS_BYTES.get(str(array.type))
    if as_bytes is not None:
        array = array.view(getattr(pyarrow, as_bytes)())
    array.validate(full=True)
    texts: list[bytes | None] = array.to_pylist()
    return texts


def batches_of_file(file: IO[bytes], path: str, kind: str, column: str) -> Iterator[Any]:
    """Yield one column of an open Parquet or Arrow file as record batches.

    Raises:
        ValueError: If the file is damaged.
        ImportError: If pyarrow is not installed.
    """
    reader = open_parquet(file, path) if kind == "parquet" else open_arrow(file, path)
    groups = None if kind == "parquet" else range(getattr(reader, "num_record_batches", 1))
    yield from batches_of(reader, path, column, groups)


def batches_of(reader: Any, path: str, column: str, groups: range | None) -> Iterator[Any]:
    """Yield one column of a reader from `open_parquet` or `open_arrow` as record batches.

    `groups` contains the indices of the row groups (Parquet; None reads all) or record batches
    (Arrow file format) to read. It is ignored for Arrow streams.

    Raises:
        ValueError: If the file is damaged.
    """
    row = 0
    if hasattr(reader, "iter_batches"):
        only = None if groups is None else list(groups)
        batches = reader.iter_batches(_ROWS_IN_A_BATCH, row_groups=only, columns=[column])
    elif hasattr(reader, "get_batch"):
        batches = (reader.get_batch(index).select([column]) for index in groups or ())
    else:
        batches = (batch.select([column]) for batch in reader)
    of_group = "" if groups is None else f" of row group {groups.start}"
    while True:
        with explained(f"{path}, row {row:,}{of_group} is damaged"):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch
        row += batch.num_rows
