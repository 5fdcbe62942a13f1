"""Read the texts in a corpus: plain text, JSON Lines, CSV, Parquet and Arrow."""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics.splitting.safe_cuts import SafeCuts
from cs336_basics.splitting.splitter import Splitter
from cs336_basics.text.arrow import TableFile, array_texts, explained, of_part
from cs336_basics.text.chunking import next_cut, safe_blocks
from cs336_basics.text.corpus import WHOLE_FILE, Chunk, Corpus
from cs336_basics.text.csv_rows import column_texts
from cs336_basics.text.encodings import BEGINNING, check_file
from cs336_basics.text.storage import (
    became_shorter,
    decompressed_blocks,
    invalid_utf8_error,
    lines_of,
    open_path,
    piece_too_long,
    size_of,
)

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<surrogate>u[dD][89a-fA-F]..)|.)", re.DOTALL
)
"""Matches a JSON escape: a pair of surrogates, a lone surrogate, or any other escape."""

DEFAULT_BLOCK_SIZE = 1 << 20
"""Approximate number of bytes of text in a block."""


@dataclass(frozen=True)
class TextBlock:
    """A document, or a block of a document that can be split into pre-tokens on its own.

    Attributes:
        text: Bytes from a plain text file, which may be invalid UTF-8, or the text of a row.
        starts_document: Whether a document starts here. Otherwise, the text continues the document
            in the previous block.
        file: Name of the file.
        origin: Name of the file and, for a row, its location. Used in messages.
        offset: Byte offset of `text` in the uncompressed plain text file. None for a row.
        bytes_read: Approximate number of stored bytes read from the file so far, for progress bars.
    """

    text: str | bytes
    starts_document: bool
    file: str
    origin: str
    offset: int | None
    bytes_read: int


def read_texts(
    corpus: Corpus, file: str, splitter: Splitter, *, block_size: int = DEFAULT_BLOCK_SIZE
) -> Iterator[TextBlock]:
    """Yield the texts in one file of a corpus, in order.

    Each row is a document. A plain text file is one document and is read in blocks of about
    `block_size` bytes.

    Raises:
        ValueError: If the file is truncated or damaged, or a line is not JSON or does not have the
            field. The message includes the file and the location.
        MissingFieldError: If a table does not have the column.
        FileNotFoundError, OSError: If the file was deleted or cannot be read.
        ImportError: If a library for the format is not installed.
    """
    cuts = splitter.safe_cuts
    size = size_of(file)
    chunks = corpus.only([file]).chunks(chunk_size=max(size, 1))
    total = max(1, sum(chunk.num_bytes for chunk in chunks))
    done = 0
    for chunk in chunks:
        for location, text, num_read in texts_of_chunk(chunk, cuts, block_size):
            is_block = isinstance(location, int)
            yield TextBlock(
                text,
                starts_document=not is_block or location == 0,
                file=file,
                origin=file if is_block else f"{file}, {location}",
                offset=location if isinstance(location, int) else None,
                # Parquet reports uncompressed sizes, so scale them to the stored size.
                bytes_read=(done + num_read) * size // total,
            )
        done += chunk.num_bytes


def texts_of_chunk(
    chunk: Chunk, cuts: SafeCuts, block_size: int = DEFAULT_BLOCK_SIZE
) -> Iterator[tuple[int | str, str | bytes, int]]:
    """Yield `(location, text, num_read)` for each text in a chunk.

    The location is the byte offset of a block of plain text, or a str that describes a row.
    `num_read` is the number of bytes read so far, out of `chunk.num_bytes`.

    Raises:
        ValueError, FileNotFoundError, OSError, ImportError: See `read_texts`.
    """
    if chunk.kind in ("parquet", "arrow"):
        return _table_rows(chunk)
    if chunk.kind == "jsonl":
        return _json_rows(chunk)
    if chunk.kind == "csv":
        return _csv_rows(chunk)
    return _text_blocks(chunk, cuts, block_size)


# --- text ----------------------------------------------------------------------------------------


def _text_blocks(chunk: Chunk, cuts: SafeCuts, block_size: int) -> Iterator[tuple[int, bytes, int]]:
    """Yield a chunk of plain text in blocks that can be split into pre-tokens on their own."""
    with open_path(chunk.path) as file:
        if chunk.end == WHOLE_FILE:
            start = 0
            blocks = decompressed_blocks(file, chunk.path, block_size)
        else:
            most = chunk.max_piece_bytes
            start = next_cut(file, chunk.start, cuts, max_bytes=most) if chunk.start else 0
            end = next_cut(file, chunk.end, cuts, max_bytes=most)
            blocks = blocks_between(file, chunk.path, start, end, block_size)
        offset = start
        for block in safe_blocks(blocks, cuts, start, chunk.path, chunk.max_piece_bytes):
            if offset == 0 and chunk.errors != "bytes":
                check_file(block[:BEGINNING], chunk.path)
            num_read = file.tell() if chunk.end == WHOLE_FILE else offset + len(block) - start
            yield offset, block, min(num_read, chunk.num_bytes)
            offset += len(block)


def blocks_between(
    file: IO[bytes], path: str, start: int, end: int, block_size: int
) -> Iterator[bytes]:
    """Yield the bytes of a file from `start` to `end`, exclusive.

    Raises:
        ValueError: If the file ends before `end`.
    """
    file.seek(start)
    while start < end:
        block = file.read(min(block_size, end - start))
        if not block:
            raise became_shorter(path, start, end)
        start += len(block)
        yield block


# --- JSON Lines ----------------------------------------------------------------------------------


def _json_rows(chunk: Chunk) -> Iterator[tuple[str, str | bytes, int]]:
    """Yield the text from each JSON line that starts in a chunk."""
    with open_path(chunk.path) as file:
        start = 0 if chunk.end == WHOLE_FILE else next_line(file, chunk.start, chunk.end)
        if start == chunk.end:
            return
        file.seek(start)
        blocks = decompressed_blocks(file, chunk.path, DEFAULT_BLOCK_SIZE)
        for offset, line in lines_of(blocks, start, chunk.path, chunk.max_piece_bytes):
            if chunk.end != WHOLE_FILE and offset >= chunk.end:
                return
            if offset == 0 and chunk.errors != "bytes":
                check_file(line[:BEGINNING], chunk.path)
            if line.removeprefix(codecs.BOM_UTF8).strip():
                location = f"the line at byte {offset:,}"
                text = _text_of_line(line, chunk, f"{chunk.path}, {location}")
                is_whole = chunk.end == WHOLE_FILE
                num_read = file.tell() if is_whole else offset + len(line) - chunk.start
                yield location, text, min(num_read, chunk.num_bytes)
        size = file.seek(0, os.SEEK_END) if chunk.end != WHOLE_FILE else 0
        if size < chunk.end:
            raise became_shorter(chunk.path, size, chunk.end)


def next_line(file: IO[bytes], start: int, end: int) -> int:
    """Return the start of the first line at or after `start`, but at most `end` or the file size.

    A line that crosses `start` belongs to the previous chunk.
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


def _text_of_line(line: bytes, chunk: Chunk, origin: str) -> str | bytes:
    """Return the text in a JSON line, as bytes if the line is not valid UTF-8."""
    is_utf8 = True
    try:
        decoded = line.decode("utf-8")
    except UnicodeDecodeError as error:
        if chunk.errors == "strict":
            raise invalid_utf8_error(origin, line[error.start], error.start) from None
        # Replace escaped surrogates, so that all remaining surrogates stand for invalid bytes.
        decoded = _ESCAPE.sub(_without_surrogate, line.decode("utf-8", "surrogateescape"))
        is_utf8 = False
    try:
        # The first line may start with a byte order mark.
        row = json.loads(decoded.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:  # including overlong numbers
        raise InputError(f"{origin}: not JSON ({error}): {line[:60]!r}") from None
    if not isinstance(row, dict):
        raise InputError(f"{origin}: must be a JSON object, got {line[:60]!r}")
    if chunk.field not in row:
        names = short_repr(sorted(row)[:20])
        raise InputError(f"{origin}: no field {chunk.field!r}; fields are {names}")
    text = row[chunk.field]
    if text is None:
        return ""
    if not isinstance(text, str):
        raise InputError(f"{origin}: field {chunk.field!r} must be a string, got {text!r:.60}")
    return text if is_utf8 else text.encode("utf-8", "surrogateescape")


def _without_surrogate(escape: re.Match[str]) -> str:
    """Return a JSON escape unchanged, or U+FFFD if it is a lone surrogate."""
    return r"\ufffd" if escape.lastgroup == "surrogate" else escape[0]


# --- CSV -----------------------------------------------------------------------------------------


def _csv_rows(chunk: Chunk) -> Iterator[tuple[str, str | bytes, int]]:
    """Yield the text of each row in a CSV file."""
    assert chunk.field is not None
    with open_path(chunk.path) as file:
        for location, text in column_texts(file, chunk.path, chunk.field, chunk.max_piece_bytes):
            yield location, text, min(file.tell(), chunk.num_bytes)


# --- Parquet and Arrow ---------------------------------------------------------------------------


def _table_rows(chunk: Chunk) -> Iterator[tuple[str, str | bytes, int]]:
    """Yield the text of each row in a chunk. Rows whose text is null are skipped."""
    assert chunk.field is not None
    part = None if chunk.end == WHOLE_FILE else chunk.start
    where = of_part(chunk.kind, part)
    row = 0
    with open_path(chunk.path) as file:
        table = TableFile(file, chunk.path, chunk.kind)
        for batch in table.batches(chunk.field, part):
            with explained(f"{chunk.path}, row {row:,}{where} is damaged"):
                texts = array_texts(batch.column(0))
            num_rows = 0 if part is None else table.num_rows(part, batch)
            for text in texts:
                location = f"row {row:,}{where}"
                row += 1
                if text is None:
                    continue
                if len(text) > chunk.max_piece_bytes:
                    raise piece_too_long(f"{chunk.path}, {location}", chunk.max_piece_bytes)
                if part is None:
                    num_read = file.tell()
                else:
                    num_read = chunk.num_bytes * row // num_rows
                yield location, text, min(num_read, chunk.num_bytes)
