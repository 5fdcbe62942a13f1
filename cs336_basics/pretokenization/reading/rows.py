"""The texts of rows in memory: dicts, Hugging Face's datasets, Arrow tables and streams.

Nothing of these libraries is imported: an object is recognized by its methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics.pretokenization.reading.arrow import (
    array_texts,
    explained,
    holds_text,
    import_pyarrow,
)

_ROWS_IN_A_BATCH = 1000


def texts_of_rows(rows: Any, field: str | None = None) -> Iterator[Any]:
    """Yield the text of each row, in order; rows without one (None) are empty texts.

    Rows are read one by one or in batches, so they may be more than memory holds, or be streamed.

    Args:
        rows: an iterable of texts, str or UTF-8 bytes; or, with `field`, an iterable of dicts; a
            `datasets.Dataset` or `IterableDataset`, of which only that column is read; or what
            exports an Arrow stream: a pyarrow.Table, RecordBatch, RecordBatchReader or
            pyarrow.dataset.Dataset, a pandas or polars DataFrame.
        field: the field or column that has the text.

    Raises:
        TypeError: `rows` is a single text, not an iterable, or several datasets; or `field` is not
            a str.
        ValueError: there are fields and no `field` is given, or rows lack it, or it does not hold
            strings; names the row where one is wrong.
        ImportError: the rows are an Arrow stream, and pyarrow is not installed.
    """
    if isinstance(rows, (str, bytes)):
        raise TypeError("texts is a single text: pass a list of texts, [text]")
    if isinstance(rows, Mapping):
        names = ", ".join(map(str, list(rows)[:10]))
        raise TypeError(
            f"rows is a mapping with the keys {names}: pass one value, such as rows['train']"
        )
    if field is not None and not isinstance(field, str):
        raise TypeError(f"field is {short_repr(field)}: it must be a str or None")
    if hasattr(rows, "select_columns") and hasattr(rows, "iter"):
        return _dataset_texts(rows, field)
    if _is_table(rows):
        return _table_texts(rows, field)
    if _is_arrow_array(rows):
        return _array_texts(rows, field)
    if hasattr(rows, "columns"):  # iterating over it would give their names
        raise TypeError(
            f"rows is a table of type {type(rows).__name__} that exports no Arrow stream: pass a "
            "column of it, or use a later version of its library"
        )
    if not isinstance(rows, Iterable):
        raise TypeError(f"texts is {short_repr(rows)}: pass a list of texts")
    return iter(rows) if field is None else _dict_texts(rows, field)


def _is_table(rows: Any) -> bool:
    """Return whether rows are an Arrow stream with columns, or can make one."""
    is_stream = hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "scanner")
    return is_stream and (hasattr(rows, "schema") or hasattr(rows, "columns"))


def _is_arrow_array(rows: Any) -> bool:
    """Return whether rows are a pyarrow.Array or ChunkedArray."""
    of_arrow = type(rows).__module__.split(".")[0] == "pyarrow"
    return of_arrow and hasattr(rows, "type") and hasattr(rows, "to_pylist")


def _dict_texts(rows: Iterable[Any], field: str) -> Iterator[Any]:
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise ValueError(
                f"row {index:,} is of type {type(row).__name__}, "
                f"not a dict with the field {field!r}: "
                "omit field for rows that are texts"
            )
        if field not in row:
            names = short_repr([str(name) for name in row])
            raise ValueError(f"row {index:,} has no field {field!r}; there are {names}")
        text = row[field]
        yield "" if text is None else text


def _dataset_texts(rows: Any, field: str | None) -> Iterator[Any]:
    """Yield the texts of a Hugging Face `datasets.Dataset`; it decodes only their column."""
    names = getattr(rows, "column_names", None)  # None where a stream does not report them
    field = _checked_field(field, names)
    done = 0
    try:
        for batch in rows.select_columns([field]).iter(_ROWS_IN_A_BATCH):
            for text in batch[field]:
                yield "" if text is None else _plain(text)
                done += 1
    except KeyError as error:
        raise ValueError(
            f"the rows from {done:,} on have no field {field!r}: {short_reason(error)}"
        ) from error


def _plain(text: Any) -> Any:
    """Return a text as Python has it; a dataset in Arrow format yields Arrow scalars."""
    return text.as_py() if hasattr(text, "as_py") else text


def _table_texts(rows: Any, field: str | None) -> Iterator[bytes]:
    """Yield the texts of an Arrow stream with columns."""
    pyarrow = import_pyarrow("Arrow data")
    if hasattr(rows, "scanner"):  # a pyarrow.dataset.Dataset; other columns are not read
        field = _checked_field(field, rows.schema.names)
        reader = rows.scanner(columns=[field]).to_reader()
    elif isinstance(rows, pyarrow.RecordBatchReader):
        reader = rows
    else:
        if isinstance(rows, pyarrow.RecordBatch):
            rows = pyarrow.Table.from_batches([rows])
        is_table = isinstance(rows, pyarrow.Table)
        reader = rows.to_reader() if is_table else pyarrow.RecordBatchReader.from_stream(rows)
    field = _checked_field(field, reader.schema.names)
    kind = reader.schema.field(field).type
    if not holds_text(kind):
        raise ValueError(f"the column {field!r} holds {kind}, not strings")
    done = 0
    while True:
        with explained(f"the rows from {done:,} on are damaged"):
            batch = next(reader, None)
            texts = [] if batch is None else array_texts(batch.column(field))
        if batch is None:
            return
        yield from (text or b"" for text in texts)
        done += batch.num_rows


def _array_texts(rows: Any, field: str | None) -> Iterator[bytes]:
    """Yield the texts of a pyarrow.Array or ChunkedArray."""
    if field is not None:
        raise ValueError(f"field is {field!r}, but the rows are an array of texts: omit it")
    if not holds_text(rows.type):
        raise ValueError(f"the array holds {rows.type}, not strings")
    for chunk in getattr(rows, "chunks", [rows]):
        yield from (text or b"" for text in array_texts(chunk))


def _checked_field(field: str | None, names: Any) -> str:
    """Return the field, if it is one of `names` (None: not known)."""
    shown = "fields" if names is None else f"the fields {', '.join(map(str, list(names)[:20]))}"
    if field is None:
        raise ValueError(f"the rows have {shown}: say which one has the text, such as field='text'")
    if names is not None and field not in names:
        raise ValueError(f"the rows have {shown}, but not {field!r}")
    if names is not None and list(names).count(field) > 1:
        raise ValueError(f"the rows have {shown}: rename those that are {field!r}, too")
    return field
