"""CSV and TSV files: the texts of one column. Rows may hold line ends within quotes."""

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
_MOST_CHARACTERS = (1 << 31) - 1  # of a field; a C long has as many on every platform


def read_header(file: IO[bytes], path: str, max_bytes: int) -> list[str]:
    """Return the names of the columns, which are the first row; none, if there is no row.

    Raises:
        ValueError: the file is damaged, or its first row has more than `max_bytes`.
        ImportError: a library for its compression is missing.
    """
    return next((row for _, row in _rows(file, path, max_bytes)), [])


def column_texts(
    file: IO[bytes], path: str, column: str, max_bytes: int
) -> Iterator[tuple[str, str | bytes]]:
    """Yield (location, text) of each row of an open file: bytes if the text is not UTF-8.

    Raises:
        ValueError: the file is damaged, is not CSV, or a row has more than `max_bytes`, or other
            fields than the first row; names the line.
        ImportError: a library for its compression is missing.
    """
    rows = _rows(file, path, max_bytes)
    _, names = next(rows, ("", []))
    index = names.index(column)
    for location, row in rows:
        if len(row) != len(names):
            raise ValueError(
                f"{path}, {location}: {len(row)} fields, but the first row has {len(names)}"
            )
        text = row[index]
        try:
            text.encode()
        except UnicodeEncodeError:  # bytes that are not UTF-8 remain as they are
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
        self.number = 0  # of the line that is read
        self.first = 1  # line of the row that is read
        self.num_bytes = 0  # of this row, so far

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
    """Yield (location, fields) of each row that is not empty."""
    name = path.lower()
    for ending in COMPRESSED_ENDINGS:
        name = name.removesuffix(ending)
    lines = _Lines(file, path, max_bytes)
    # The limit is one of the process, and by default 128 KB.
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
