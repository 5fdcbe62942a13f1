"""JsonLines: a file with one JSON object per line, and the copy of any file with rows."""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import IO, Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.urls import is_url
from cs336_basics.text.cuts import Cuts
from cs336_basics.text.encodings import BEGINNING, check_signature
from cs336_basics.text.sources.kinds import check_beginning_of
from cs336_basics.text.sources.source import (
    DEFAULT_BLOCK_SIZE,
    DivisibleSource,
    MissingFieldError,
    Piece,
    Source,
    TextBlock,
)
from cs336_basics.text.storage import (
    became_shorter,
    decompressed_blocks,
    invalid_utf8_error,
    lines_of,
    open_path,
)

_PLACE = "the line at byte {:,}"

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<surrogate>u[dD][89a-fA-F]..)|.)", re.DOTALL
)
"""Matches a JSON escape: a pair of surrogates, a lone surrogate, or any other escape."""


@dataclass(frozen=True)
class RowSource(Source):
    """A file whose rows are documents.

    Args:
        field: JSON Lines field or table column that contains the text.
    """

    _: KW_ONLY
    field: str

    copy_ending = ".jsonl"

    def settings(self) -> dict[str, Any]:
        """See `Source`."""
        return {**super().settings(), "field": self.field}

    def copy_at(self, path: str) -> JsonLines:
        """See `Source`. The copy is JSON Lines with only the text."""
        # JSON may need six bytes for a character of one byte.
        limit = 6 * self.max_piece_bytes + len(json.dumps({self.field: ""}))
        return JsonLines(path, field=self.field, errors=self.errors, max_piece_bytes=limit)

    def write_copy(self, file: IO[bytes], cuts: Cuts) -> None:
        """See `Source`. Reading the copy gives the same texts, even if they are not valid UTF-8."""
        for block in self.texts(cuts):
            file.write(_json_line(self.field, block.text))


class JsonLines(RowSource, DivisibleSource):
    """A JSON Lines file, compressed or not. It can be divided between lines."""

    format = "jsonl"
    option = "field"

    @classmethod
    def opened(cls, path: str, name: str | None, is_certain: bool, **settings: Any) -> JsonLines:
        """See `Source`."""
        if name is None:
            raise MissingFieldError(path, "field")
        check_beginning_of(path, settings["errors"], may_have_rows=True)
        return cls(path, field=name, **settings)

    def boundary(self, file: IO[bytes], offset: int, cuts: Cuts) -> int:
        """Return the start of the first line at or after `offset`; see `DivisibleSource`."""
        return next_line(file, offset, file.seek(0, os.SEEK_END))

    def read(self, piece: Piece, cuts: Cuts, block_size: int) -> Iterator[TextBlock]:
        """Yield the text of each line that starts in the piece. Blank lines are skipped."""
        path, size = self.path, piece.num_bytes
        with open_path(path) as file:
            start, end = piece.start, piece.end
            if self.is_compressed:
                end = sys.maxsize
            else:
                start = next_line(file, start, end)
                if start == end:
                    return
                file.seek(start)
            blocks = decompressed_blocks(file, path, DEFAULT_BLOCK_SIZE)
            for offset, line in lines_of(blocks, start, path, self.max_piece_bytes):
                if offset >= end:
                    return
                if offset == 0 and self.errors != "bytes":
                    check_signature(line[:BEGINNING], path)
                if line.removeprefix(codecs.BOM_UTF8).strip():
                    text = self._text_of(line, offset)
                    done = file.tell() if self.is_compressed else offset + len(line) - piece.start
                    yield TextBlock(text, True, path, _PLACE, offset, min(done, size))
            if not self.is_compressed and (found := file.seek(0, os.SEEK_END)) < end:
                raise became_shorter(path, found, end)

    def _text_of(self, line: bytes, offset: int) -> str | bytes:
        """Return the text in a JSON line, as bytes if the line is not valid UTF-8."""

        def where() -> str:
            return f"{self.path}, {self._place_of(offset)}"

        is_utf8 = True
        try:
            decoded = line.decode("utf-8")
        except UnicodeDecodeError as error:
            if self.errors == "strict":
                raise invalid_utf8_error(where(), line[error.start], error.start) from None
            # Replace escaped surrogates, so that all remaining surrogates stand for invalid bytes.
            decoded = _ESCAPE.sub(_without_surrogate, line.decode("utf-8", "surrogateescape"))
            is_utf8 = False
        try:
            # The first line may start with a byte order mark.
            row = json.loads(decoded.removeprefix("\ufeff"))
        except (ValueError, RecursionError) as error:  # including overlong numbers
            raise InputError(f"not JSON ({error}): {line[:60]!r}", place=where()) from None
        if not isinstance(row, dict):
            raise InputError(f"must be a JSON object, got {line[:60]!r}", place=where())
        try:
            text = self.text_of_row(row)
        except InputError as error:
            raise error.at(where()) from None
        return text if is_utf8 else text.encode("utf-8", "surrogateescape")

    def text_of_row(self, row: dict[str, Any]) -> str:
        """Return the text in a row.

        Raises:
            ValueError: If the row does not have the field, or it is not a string.
        """
        return string_in(row, self.field) or ""

    def _place_of(self, offset: int) -> str:
        """Return the number of the line at an offset. For a URL, return the offset instead.

        Only messages need the number, so the lines before this one are counted only now.
        """
        if is_url(self.path):
            return _PLACE.format(offset)
        number, left = 1, offset
        with open_path(self.path) as file:
            for block in decompressed_blocks(file, self.path, DEFAULT_BLOCK_SIZE):
                number += block.count(b"\n", 0, left)
                left -= len(block)
                if left <= 0:
                    break
        return f"line {number:,}"


def string_in(row: dict[str, Any], field: str) -> str | None:
    """Return the string or null in a field of a row.

    Raises:
        ValueError: If the row does not have the field, or it is neither a string nor null.
    """
    if field not in row:
        raise InputError(f"no field {field!r}; fields are {short_repr(sorted(row)[:20])}")
    text = row[field]
    if not isinstance(text, str | None):
        raise InputError(f"field {field!r} must be a string, got {text!r:.60}")
    return text


def next_line(file: IO[bytes], start: int, end: int) -> int:
    """Return the start of the first line at or after `start`, but at most `end` or the file size.

    A line that crosses `start` belongs to the previous piece.
    """
    if start == 0:
        return 0
    offset = start - 1
    file.seek(offset)
    while offset < end:
        block = file.read(min(DEFAULT_BLOCK_SIZE, end - offset))
        found = block.find(b"\n")
        if found >= 0:
            return offset + found + 1
        if not block:
            return offset
        offset += len(block)
    return end


def _without_surrogate(escape: re.Match[str]) -> str:
    """Return a JSON escape unchanged, or U+FFFD if it is a lone surrogate."""
    return r"\ufffd" if escape.lastgroup == "surrogate" else escape[0]


def _json_line(field: str, text: str | bytes) -> bytes:
    if isinstance(text, bytes):
        row = {field: text.decode("utf-8", "surrogateescape")}
        return json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogateescape") + b"\n"
    try:
        return json.dumps({field: text}, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate must be escaped
        return json.dumps({field: text}).encode() + b"\n"
