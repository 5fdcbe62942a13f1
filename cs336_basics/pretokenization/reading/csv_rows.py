"""Read one column of a CSV or TSV file. Quoted fields may contain line endings."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import IO

from cs336_basics.pretokenization.reading.storage import (
    COMPRESSED_ENDINGS,
    decompressed_blocks,
    is_compressed,
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
            raise ValueError(
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


class _Lines:
    """The lines of an open file, for the csv module."""

    def __init__(self, file: IO[bytes], path: str, max_bytes: int) -> None:
        if is_compressed(path):
            blocks = decompressed_blocks(file, path, _BLOCK_SIZE)
        else:
            blocks = iter(lambda: file.read(_BLOCK_SIZE), b"")
        self._lines = lines_of(blocks, 0, path, max_bytes)
        self._path = path
        self._max_bytes = max_bytes
        self.number = 0  # current line
        self.first = 1  # first line of the current row
        self.num_bytes = 0  # of the current row so far

    def __iter__(self) -> Iterator[str]:
        for _, line in self._lines:
            self.number += 1
            self.num_bytes += len(line) + 1
            if self.num_bytes > self._max_bytes:
                raise piece_too_long(
                    f"{self._path}, the row at line {self.first:,}", self._max_bytes
                )
            text = line.decode("utf-8", "surrogateescape") + "\n"
            yield text.removeprefix("\ufeff") if self.number == 1 else text


def _rows(file: IO[bytes], path: str, max_bytes: int) -> Iterator[tuple[str, list[str]]]:
    """Yield `(location, fields)` for each nonempty row."""
    name = path.lower()
    for ending in COMPRESSED_ENDINGS:
        name = name.removesuffix(ending)
    lines = _Lines(file, path, max_bytes)
    # This limit applies to the whole process and defaults to 128 KB.
    most = min(_MOST_CHARACTERS, max(csv.field_size_limit(), max_bytes))
    csv.field_size_limit(most)
    reader = csv.reader(lines, delimiter="\t" if name.endswith(".tsv") else ",", strict=True)
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise ValueError(f"{path}, the row at line {lines.first:,}: not CSV: {error}") from None
        if row is None:
            return
        if row:
            yield f"the row at line {lines.first:,}", row
        lines.first = lines.number + 1
        lines.num_bytes = 0
