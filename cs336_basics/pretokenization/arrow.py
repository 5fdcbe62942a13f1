"""Arrow data: columns of strings in Parquet files, Arrow files and tables in memory.

An Arrow file is one of the two IPC formats: the file format (`.feather` of version 2), or the
stream format, in which Hugging Face's datasets are cached. pyarrow is imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

_ROWS_IN_A_BATCH = 1024


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
    pyarrow = import_pyarrow(path)
    import pyarrow.parquet as parquet

    try:
        return parquet.ParquetFile(file)
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path} is not a whole Parquet file: {error}") from error


def open_arrow(file: IO[bytes], path: str) -> Any:
    """Return the RecordBatchFileReader or RecordBatchStreamReader of an open Arrow file.

    Only the first has `num_record_batches` and `get_batch`.

    Raises:
        ValueError: the file is damaged or is not an Arrow file.
        ImportError: pyarrow is not installed.
    """
    pyarrow = import_pyarrow(path)
    try:
        return pyarrow.ipc.open_file(file)
    except pyarrow.ArrowException:
        file.seek(0)
    try:
        return pyarrow.ipc.open_stream(file)
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(
            f"{path} is not a whole Arrow file (the IPC file or stream format): {error}"
        ) from error


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
        pyarrow.ArrowInvalid: its offsets lead out of its memory, as in a damaged file.
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
    pyarrow = import_pyarrow(path)
    row = 0
    try:
        if hasattr(reader, "iter_batches"):
            only = None if groups is None else list(groups)
            batches = reader.iter_batches(_ROWS_IN_A_BATCH, row_groups=only, columns=[column])
        elif hasattr(reader, "get_batch"):
            batches = (reader.get_batch(index).select([column]) for index in groups or ())
        else:
            batches = (batch.select([column]) for batch in reader)
        for batch in batches:
            yield batch
            row += batch.num_rows
    except (pyarrow.ArrowException, OSError) as error:
        where = f"row {row:,}" if groups is None else f"row {row:,} of row group {groups.start}"
        raise ValueError(f"{path}, {where}: damaged ({error})") from error
