"""Csv: a CSV or TSV file with the names of its columns in the first row.

The delimiter of a `.tsv` file is a tab. In other files, it is the delimiter with which the first
row contains the name of the column.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import IO, Any

from cs336_basics._support.errors import InputError
from cs336_basics.text.cuts import Cuts
from cs336_basics.text.sources.jsonl import RowSource
from cs336_basics.text.sources.kinds import DELIMITERS, check_beginning_of, ending_of
from cs336_basics.text.sources.source import (
    DEFAULT_BLOCK_SIZE,
    Piece,
    TextBlock,
    checked_column,
)
from cs336_basics.text.storage import (
    decompressed_blocks,
    lines_of,
    open_path,
    piece_too_long,
    size_of,
)

_PLACE = "the row at line {:,}"
_MOST_CHARACTERS = (1 << 31) - 1  # in a field; fits in a C long on every platform


@dataclass(frozen=True)
class Csv(RowSource):
    """One column of a CSV or TSV file. It is a single piece, because a row may span lines.

    Args:
        delimiter: Character between the fields of a row.
    """

    _: KW_ONLY
    delimiter: str

    format = "csv"
    option = "column"

    @classmethod
    def opened(cls, path: str, name: str | None, is_certain: bool, **settings: Any) -> Csv:
        """See `Source`."""
        check_beginning_of(path, settings["errors"], may_have_rows=True)
        delimiter = DELIMITERS[0]
        if size_of(path):
            with open_path(path) as file:
                delimiter, header = find_header(file, path, name, settings["max_piece_bytes"])
            name = checked_column(path, name, header)
        return cls(path, field=name or "", delimiter=delimiter, **settings)

    def settings(self) -> dict[str, Any]:
        """See `Source`."""
        return {**super().settings(), "delimiter": self.delimiter}

    def pieces(self, num_bytes: int) -> list[Piece]:
        """See `Source`. An empty file has no pieces."""
        size = self.num_bytes
        return [Piece(self, 0, size, size)] if size else []

    def read(self, piece: Piece, cuts: Cuts, block_size: int) -> Iterator[TextBlock]:
        """Yield the text of each row."""
        path, size = self.path, piece.num_bytes
        with open_path(path) as file:
            texts = column_texts(file, path, self.field, self.delimiter, self.max_piece_bytes)
            for line, text in texts:
                yield TextBlock(text, True, path, _PLACE, line, min(file.tell(), size))


def find_header(
    file: IO[bytes], path: str, column: str | None, max_bytes: int
) -> tuple[str, list[str]]:
    """Return the delimiter of an open file, and the first row, which contains the column names.

    If the first row does not contain `column` with any delimiter, return the delimiter that divides
    it into the most fields. If there is no row, return [] for it.

    Raises:
        ValueError: If the file is damaged, or the first row is longer than `max_bytes`.
        ImportError: If a library for the file's compression is not installed.
    """
    found: dict[str, list[str]] = {}
    problems: list[InputError] = []
    for delimiter in "\t" if ending_of(path) == ".tsv" else DELIMITERS:
        file.seek(0)
        try:
            header = next((row for _, row in _rows(file, path, delimiter, max_bytes)), [])
        except InputError as error:  # such as a quote before another delimiter
            problems.append(error)
            continue
        if column in header:
            return delimiter, header
        found[delimiter] = header
    if not found:
        raise problems[0]
    return max(found.items(), key=lambda item: len(item[1]))


def column_texts(
    file: IO[bytes], path: str, column: str, delimiter: str, max_bytes: int
) -> Iterator[tuple[int, str | bytes]]:
    """Yield `(first line, text)` for each row in an open file. Invalid UTF-8 is yielded as bytes.

    Raises:
        ValueError: If the file is damaged or not CSV, or a row is longer than `max_bytes` or does
            not have as many fields as the first row. The message includes the line number.
        ImportError: If a library for the file's compression is not installed.
    """
    rows = _rows(file, path, delimiter, max_bytes)
    _, names = next(rows, (1, []))
    index = names.index(checked_column(path, column, names))
    for line, row in rows:
        if len(row) != len(names):
            raise InputError(
                f"must have {len(names)} fields, like the first row, got {len(row)}",
                place=f"{path}, {_PLACE.format(line)}",
            )
        text = row[index]
        try:
            text.encode()
        except UnicodeEncodeError:  # restore bytes that are not valid UTF-8
            yield line, text.encode("utf-8", "surrogateescape")
        else:
            yield line, text


def _rows(
    file: IO[bytes], path: str, delimiter: str, max_bytes: int
) -> Iterator[tuple[int, list[str]]]:
    """Yield `(first line, fields)` for each nonempty row."""
    blocks = decompressed_blocks(file, path, DEFAULT_BLOCK_SIZE)
    first = number = num_bytes = 0  # first and last line of the current row, and its size

    def lines() -> Iterator[str]:
        nonlocal number, num_bytes
        for offset, line in lines_of(blocks, 0, path, max_bytes):
            number += 1
            num_bytes += len(line) + 1
            if num_bytes > max_bytes:
                raise piece_too_long(f"{path}, {_PLACE.format(first)}", max_bytes)
            text = line.decode("utf-8", "surrogateescape") + "\n"
            yield text if offset else text.removeprefix("\ufeff")

    # This limit applies to the whole process, so a larger limit is kept, up to `_MOST_CHARACTERS`.
    # It defaults to 128 KB.
    csv.field_size_limit(min(_MOST_CHARACTERS, max(csv.field_size_limit(), max_bytes)))
    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    while True:
        first, num_bytes = number + 1, 0
        try:
            row = next(reader, None)
        except csv.Error as error:
            reason = str(error)
            if "new-line character seen" in reason:
                reason = "a field with a carriage return must be in quotes"
            raise InputError(
                f"not CSV: {reason}", place=f"{path}, {_PLACE.format(first)}"
            ) from None
        if row is None:
            return
        if row:
            yield first, row
