"""Read one column of a CSV or TSV file. Quoted fields may contain line endings."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import IO

from cs336_basics._support.errors import InputError
from cs336_basics.text.kinds import ending_of
from cs336_basics.text.storage import (
    decompressed_blocks,
    lines_of,
    piece_too_long,
)

_BLOCK_SIZE = 1 << 20
_MOST_CHARACTERS = (1 << 31) - 1  # in a field; fits in a C long on every platform


def read_header(file: IO[bytes], path: str, max_bytes: int) -> list[str]:
    """Return the first row, which contains the column names, or [] if there is no row.

    Raises:
        ValueError: If the file is damaged, or the first row is longer than `max_bytes`.
        ImportError: If a library for the file's compression is not installed.
    """
    return next((row for _, row in _rows(file, path, max_bytes)), [])


def column_texts(
    file: IO[bytes], path: str, column: str, max_bytes: int
) -> Iterator[tuple[str, str | bytes]]:
    """Yield `(location, text)` for each row in an open file. Invalid UTF-8 is yielded as bytes.

    Raises:
        ValueError: If the file is damaged or not CSV, or a row is longer than `max_bytes` or does
            not have as many fields as the first row. The message includes the line number.
        ImportError: If a library for the file's compression is not installed.
    """
    rows = _rows(file, path, max_bytes)
    _, names = next(rows, ("", []))
    index = names.index(column)
    for location, row in rows:
        if len(row) != len(names):
            raise InputError(
                f"{path}, {location}: must have {len(names)} fields, like the first row, got "
                f"{len(row)}"
            )
        text = row[index]
        try:
            text.encode()
        except UnicodeEncodeError:  # restore bytes that are not valid UTF-8
            yield location, text.encode("utf-8", "surrogateescape")
        else:
            yield location, text


def _rows(file: IO[bytes], path: str, max_bytes: int) -> Iterator[tuple[str, list[str]]]:
    """Yield `(location, fields)` for each nonempty row."""
    blocks = decompressed_blocks(file, path, _BLOCK_SIZE)
    first = number = num_bytes = 0  # first and last line of the current row, and its size

    def lines() -> Iterator[str]:
        nonlocal number, num_bytes
        for offset, line in lines_of(blocks, 0, path, max_bytes):
            number += 1
            num_bytes += len(line) + 1
            if num_bytes > max_bytes:
                raise piece_too_long(f"{path}, the row at line {first:,}", max_bytes)
            text = line.decode("utf-8", "surrogateescape") + "\n"
            yield text if offset else text.removeprefix("\ufeff")

    # This limit applies to the whole process, so a larger limit is kept, up to `_MOST_CHARACTERS`.
    # It defaults to 128 KB.
    csv.field_size_limit(min(_MOST_CHARACTERS, max(csv.field_size_limit(), max_bytes)))
    delimiter = "\t" if ending_of(path) == ".tsv" else ","
    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    while True:
        first, num_bytes = number + 1, 0
        try:
            row = next(reader, None)
        except csv.Error as error:
            reason = str(error)
            if "new-line character seen" in reason:
                reason = "a field with a carriage return must be in quotes"
            raise InputError(f"{path}, the row at line {first:,}: not CSV: {reason}") from None
        if row is None:
            return
        if row:
            yield f"the row at line {first:,}", row
