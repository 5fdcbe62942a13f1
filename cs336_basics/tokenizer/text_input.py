"""Checks for texts passed by callers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics.text.reading_record import ReadingRecord


def text_column(row: Mapping[str, Any]) -> Any:
    """Return the `text` column of a row or a batch of rows.

    Raises:
        ValueError: If there is no such column.
    """
    if "text" not in row:
        raise InputError(
            f"the row has no column 'text', only {short_repr(list(row))}",
            remedy="pass the texts, or name their column: dataset.map(tokenizer, "
            "input_columns=NAME)",
        )
    return row["text"]


def replaced_utf8(text: str | bytes, errors: str) -> bytes:
    """Return a text as valid UTF-8, and warn if it had to be changed."""
    reading = ReadingRecord()
    valid = reading.utf8_of(text, errors)
    reading.num_bytes = len(text if isinstance(text, bytes) else valid)
    reading.warn()
    return valid
