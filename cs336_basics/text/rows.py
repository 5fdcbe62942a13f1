"""Read text from rows in memory: dicts, Hugging Face datasets, Arrow tables and streams.

Objects are recognized by their methods, so that their libraries need not be imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cs336_basics._support.arguments import check_is_iterable
from cs336_basics._support.errors import Argument, InputError, InputTypeError
from cs336_basics._support.messages import short_names, short_reason, short_repr
from cs336_basics.text.arrow import (
    array_texts,
    explained,
    holds_text,
    import_pyarrow,
)

_ROWS_IN_A_BATCH = 1000
_NO_BATCHES = (Mapping, bytearray, memoryview)  # iterables that are not batches of texts


def texts_of_rows(rows: Any, field: str | None = None) -> Iterator[Any]:
    """Yield the text of each row, in order. None becomes empty text.

    Rows are read one at a time or in batches, so they may be streamed or larger than memory.

    Args:
        rows: Iterable of texts (str or UTF-8 bytes) or of batches of texts (lists, arrays). It may
            be an Arrow array. With `field`, an iterable of dicts with a text or a batch of texts, a
            `datasets.Dataset` or `IterableDataset`, or an object that exports an Arrow stream
            (pyarrow.Table, RecordBatch, RecordBatchReader, pyarrow.dataset.Dataset, pandas or
            polars DataFrame). Of a dataset, only the column `field` is read.
        field: Field or column that contains the text.

    Raises:
        TypeError: If `rows` is a single text, is not iterable, or is a mapping of several datasets,
            or if `field` is not a str.
        ValueError: If `field` is missing, if the rows do not have it, or if it does not contain
            strings. The message includes the index of the invalid row.
        ImportError: If `rows` exports an Arrow stream and pyarrow is not installed.
    """
    if isinstance(rows, (str, bytes)):
        raise InputTypeError(
            f"must be a list of texts, got {short_repr(rows)}",
            argument="texts",
            remedy="pass [text]",
        )
    if isinstance(rows, Mapping):
        names = ", ".join(map(str, list(rows)[:10]))
        raise InputTypeError(
            f"must not be a mapping, got one with keys {names}",
            argument="rows",
            remedy="pass a value such as rows['train']",
        )
    if not isinstance(field, (str, type(None))):
        raise InputTypeError(f"must be a str or None, got {short_repr(field)}", argument="field")
    if hasattr(rows, "select_columns") and hasattr(rows, "iter"):
        return _dataset_texts(rows, field)
    if _is_table(rows):
        return _table_texts(rows, field)
    if hasattr(rows, "columns"):  # iterating would yield the column names
        raise InputTypeError(
            f"must export an Arrow stream, got a table of type {type(rows).__name__}",
            argument="rows",
            remedy="pass rows.collect()"
            if hasattr(rows, "collect")
            else "pass one of its columns, or upgrade its library",
        )
    check_is_iterable("texts", rows, of="texts")
    return _single_texts(rows if field is None else _values(rows, field))


def _single_texts(values: Iterable[Any]) -> Iterator[Any]:
    """Yield texts one at a time. Some of them may arrive in batches. None becomes empty text."""
    for value in values:
        if type(value) is str or isinstance(value, (str, bytes)):  # the first test is faster
            yield value
        elif isinstance(value, Iterable) and not isinstance(value, _NO_BATCHES):
            for text in value:
                yield text if isinstance(text, (str, bytes)) else _text_or_empty(text)
        else:
            yield _text_or_empty(value)


def _text_or_empty(text: Any) -> Any:
    """Return an Arrow scalar as a Python object, and None, a null or pandas' NaN or NA as ""."""
    text = text.as_py() if hasattr(text, "as_py") else text
    is_nan = isinstance(text, float) and text != text
    return "" if text is None or is_nan or type(text).__name__ == "NAType" else text


def _is_table(rows: Any) -> bool:
    """Return whether `rows` exports an Arrow stream with columns."""
    is_stream = hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "scanner")
    return is_stream and (hasattr(rows, "schema") or hasattr(rows, "columns"))


def _values(rows: Iterable[Any], field: str) -> Iterator[Any]:
    """Yield the value of the field in each dict."""
    for index, row in enumerate(rows):
        if type(row) is not dict and not isinstance(row, Mapping):  # the second test is slow
            raise InputError(
                f"must be dicts with field {field!r}, got {type(row).__name__}",
                argument="rows",
                place=f"row {index:,}",
                remedy=("omit ", Argument("field"), " if the rows are texts"),
            )
        if field not in row:
            names = short_repr([str(name) for name in row])
            raise InputError(
                f"must be one of {names}, got {field!r}", argument="field", place=f"row {index:,}"
            )
        yield row[field]


def _dataset_texts(rows: Any, field: str | None) -> Iterator[Any]:
    """Yield the texts in a Hugging Face `datasets.Dataset`. Only the text column is decoded."""
    names = getattr(rows, "column_names", None)  # None for streams that do not report them
    field = _checked_field(field, names)
    done = 0
    try:
        for batch in rows.select_columns([field]).iter(_ROWS_IN_A_BATCH):
            for text in batch[field]:
                yield _text_or_empty(text)
                done += 1
    except KeyError as error:
        raise InputError(
            f"must be in every row, got {field!r}: {short_reason(error)}",
            argument="field",
            place=f"row {done:,} or a later row",
        ) from error


def _table_texts(rows: Any, field: str | None) -> Iterator[bytes]:
    """Yield the texts in one column of an Arrow stream."""
    pyarrow = import_pyarrow("Arrow data")
    if hasattr(rows, "scanner"):  # a pyarrow.dataset.Dataset can read a single column
        field = _checked_field(field, rows.schema.names)
        reader = rows.scanner(columns=[field]).to_reader()
    else:
        reader = pyarrow.RecordBatchReader.from_stream(rows)
    field = _checked_field(field, reader.schema.names)
    kind = reader.schema.field(field).type
    if not holds_text(kind):
        raise InputError(
            f"must name a column of strings, got {field!r} of type {kind}", argument="field"
        )
    done = 0
    while True:
        with explained(f"row {done:,} or a later row is damaged"):
            batch = next(reader, None)
            texts = iter(()) if batch is None else array_texts(batch.column(field))
        if batch is None:
            return
        yield from (text or b"" for text in texts)
        done += batch.num_rows


def _checked_field(field: str | None, names: Any) -> str:
    """Check that the field is in `names`, if the names are known, and return it."""
    shown = "" if names is None else f"; fields are {short_names(names)}"
    if field is None:
        raise InputError(
            f"must name the field that contains the text{shown}",
            argument="field",
            remedy=("pass a name, such as ", Argument("field", "text")),
        )
    if names is not None and field not in names:
        raise InputError(
            f"must name a field of the rows, got {short_repr(field)}{shown}", argument="field"
        )
    if names is not None and list(names).count(field) > 1:
        raise InputError(
            f"must name a single field, but several are named {field!r}",
            argument="field",
            remedy="rename them",
        )
    return field
