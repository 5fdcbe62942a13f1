"""Arrow data: columns of strings in Parquet files, Arrow files and tables in memory.

An Arrow file is one of the two IPC formats: the file format (`.feather` of version 2), or the
stream format, in which Hugging Face's datasets are cached. pyarrow is imported when it is needed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import IO, Any

from cs336_basics._support.messages import short_reason

_ROWS_IN_A_BATCH = 64
"""Of Parquet. All of them are in memory, and a small file may unpack to rows of megabytes."""
_FILE_MAGIC = b"ARROW1"


def import_pyarrow(what: str) -> Any:
    """Return the module pyarrow.

    Raises:
        ImportError: it is not installed; names the command that installs it.
    """
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError:
        raise ImportError(
            f"reading {what} needs pyarrow: pip install 'cs336-basics[parquet]'"
        ) from None
    return pyarrow


def open_parquet(file: IO[bytes], path: str) -> Any:
    """Return the `pyarrow.parquet.ParquetFile` of an open file.

    Raises:
        ValueError: the file is damaged or is not a Parquet file.
        ImportError: pyarrow is not installed.
    """
    import_pyarrow(path)
    import pyarrow.parquet as parquet

    with explained(f"{path} is not a whole Parquet file"):
        reader = parquet.ParquetFile(_BoundedFile(file))
        reader.schema_arrow.names  # noqa: B018 -- names are decoded when they are read
    return reader


def open_arrow(file: IO[bytes], path: str) -> Any:
    """Return the RecordBatchFileReader or RecordBatchStreamReader of an open Arrow file.

    Only the first has `num_record_batches` and `get_batch`.

    Raises:
        ValueError: the file is damaged or is not an Arrow file.
        ImportError: pyarrow is not installed.
    """
    pyarrow = import_pyarrow(path)
    is_file = file.read(len(_FILE_MAGIC)) == _FILE_MAGIC
    file.seek(0)
    with explained(f"{path} is not a whole Arrow file (the IPC file or stream format)"):
        open_reader = pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream
        reader = open_reader(_BoundedFile(file))
        reader.schema.names  # noqa: B018 -- names are decoded when they are read
    return reader


class _BoundedFile:
    """A file that reads no more than it holds: a damaged one may ask for any amount of memory."""

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
    """Raise ValueError where pyarrow finds data damaged, for which it has several exceptions.

    An OSError with a number is of the system, and stays what it is. A MemoryError names the place.

    Args:
        what: the message, without the reason.
    """
    pyarrow = import_pyarrow(what)
    try:
        yield
    except MemoryError as error:  # pyarrow's own is an ArrowException, too
        raise MemoryError(f"out of memory, or {what}: {short_reason(error)}") from error
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f"{what}: {short_reason(error)}") from error


def holds_text(kind: Any) -> bool:
    """Return whether a column of this Arrow type holds strings, or bytes for them."""
    pyarrow = import_pyarrow("Arrow data")
    if pyarrow.types.is_dictionary(kind):
        kind = kind.value_type
    return str(kind) in _AS_BYTES or str(kind) in _AS_BYTES.values()


_AS_BYTES = {"string": "binary", "large_string": "large_binary", "string_view": "binary_view"}
"""Type of strings -> type of bytes with the same memory layout."""


def array_texts(array: Any) -> list[bytes | None]:
    """Return the UTF-8 of each value of a pyarrow.Array of strings; None for null.

    Bytes that are not UTF-8 are returned as they are: whoever reads the text treats them.

    Raises:
        pyarrow.ArrowException: its offsets lead out of its memory, as in a damaged file.
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
    """Yield the record batches of an open file, with this column only.

    Args:
        file: the file.
        path: its name, for messages.
        kind: `"parquet"` or `"arrow"`.
        column: a column that it has.

    Raises:
        ValueError: the file is damaged.
        ImportError: pyarrow is not installed.
    """
    reader = open_parquet(file, path) if kind == "parquet" else open_arrow(file, path)
    groups = None if kind == "parquet" else range(getattr(reader, "num_record_batches", 1))
    yield from batches_of(reader, path, column, groups)


def batches_of(reader: Any, path: str, column: str, groups: range | None) -> Iterator[Any]:
    """Yield record batches with this column only.

    Args:
        reader: what `open_parquet` or `open_arrow` returned.
        path: the name of its file, for messages.
        column: a column that it has.
        groups: indices of row groups (Parquet) or record batches; of a stream, all are read. None:
            all row groups.

    Raises:
        ValueError: the file is damaged.
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
        with explained(f"{path} cannot be read at row {row:,}{of_group}"):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch
        row += batch.num_rows
