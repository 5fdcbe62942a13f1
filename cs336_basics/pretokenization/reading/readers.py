"""Reads the texts of a corpus: blocks of a text, rows of JSON lines, CSV, Parquet and Arrow."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from cs336_basics.pretokenization.reading.arrow import (
    array_texts,
    batches_of,
    explained,
    open_arrow,
    open_parquet,
)
from cs336_basics.pretokenization.reading.chunking import next_cut, safe_blocks
from cs336_basics.pretokenization.reading.corpus import WHOLE_FILE, Chunk, Corpus
from cs336_basics.pretokenization.reading.csv_rows import column_texts
from cs336_basics.pretokenization.reading.encodings import BEGINNING, check_file
from cs336_basics.pretokenization.reading.storage import (
    became_shorter,
    decompressed_blocks,
    lines_of,
    open_path,
    piece_too_long,
    size_of,
)
from cs336_basics.pretokenization.reading.utf8_errors import invalid_utf8_error
from cs336_basics.pretokenization.safe_cuts import SafeCuts
from cs336_basics.pretokenization.splitter import Splitter

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<surrogate>u[dD][89a-fA-F]..)|.)", re.DOTALL
)
"""An escape of JSON: two surrogates that are one character, one alone, or any other."""

DEFAULT_BLOCK_SIZE = 1 << 20
"""Bytes of text in a block."""


@dataclass(frozen=True)
class TextBlock:
    """A document, or a block of one that can be split into pre-tokens by itself.

    Attributes:
        text: of a file of text its bytes, which need not be UTF-8; of a row what the file holds.
        starts_document: whether a document starts here; if not, the text continues the document
            of the block before.
        file: the name of the file.
        origin: names the file and, for a row, the row; for messages.
        offset: of a file of text, where `text` starts in it (uncompressed), in bytes; None for a
            row.
        bytes_read: how much of the stored file has been read up to here, approximately; for
            progress.
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
    """Yield the texts of one file of a corpus, in order.

    Every row is a document. A file of text is one, in blocks of about `block_size` bytes.

    Raises:
        ValueError: the file is truncated or damaged; a line is not JSON, or lacks the field; the
            message names the file and where in it.
        MissingFieldError: a table lacks the column.
        FileNotFoundError, OSError: the file vanished or cannot be read.
        ImportError: a library for the format is missing; names the command that installs it.
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
                # Parquet gives the size of its row groups before compression.
                bytes_read=(done + num_read) * size // total,
            )
        done += chunk.num_bytes


def texts_of_chunk(
    chunk: Chunk, cuts: SafeCuts, block_size: int = DEFAULT_BLOCK_SIZE
) -> Iterator[tuple[int | str, str | bytes, int]]:
    """Yield `(location, text, num_read)` for the texts of a chunk.

    The location is the byte offset of a block of text, or names a row. `num_read` is how much of
    `chunk.num_bytes` has been read.

    Raises:
        ValueError, FileNotFoundError, OSError, ImportError: as `read_texts`.
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
    """Yield a chunk of text in blocks that can be split one by one."""
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
    """Yield the bytes [start, end) of a file.

    Raises:
        ValueError: the file ends before `end`.
    """
    file.seek(start)
    while start < end:
        block = file.read(min(block_size, end - start))
        if not block:
            raise became_shorter(path, start, end)
        start += len(block)
        yield block


# --- JSON lines ----------------------------------------------------------------------------------


def _json_rows(chunk: Chunk) -> Iterator[tuple[str, str | bytes, int]]:
    """Yield the text of every line that begins within a chunk."""
    with open_path(chunk.path) as file:
        if chunk.end == WHOLE_FILE:
            start = 0
            blocks = decompressed_blocks(file, chunk.path, DEFAULT_BLOCK_SIZE)
        else:
            start = next_line(file, chunk.start, chunk.end)
            if start == chunk.end:
                return
            file.seek(start)
            blocks = iter(lambda: file.read(DEFAULT_BLOCK_SIZE), b"")
        for offset, line in lines_of(blocks, start, chunk.path, chunk.max_piece_bytes):
            if chunk.end != WHOLE_FILE and offset >= chunk.end:
                return
            if offset == 0 and chunk.errors != "bytes":
                check_file(line[:BEGINNING], chunk.path)
            if line.strip():
                location = f"the line at byte {offset:,}"
                text = _text_of_line(line, chunk, f"{chunk.path}, {location}")
                is_whole = chunk.end == WHOLE_FILE
                num_read = file.tell() if is_whole else offset + len(line) - chunk.start
                yield location, text, min(num_read, chunk.num_bytes)
        size = file.seek(0, os.SEEK_END) if chunk.end != WHOLE_FILE else 0
        if size < chunk.end:
            raise became_shorter(chunk.path, size, chunk.end)


def next_line(file: IO[bytes], start: int, end: int) -> int:
    """Return where the first line at or after `start` begins, or `end`, or where the file ends.

    A line that lies across `start` belongs to the chunk before, however long it is.
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
    """Return the text of a line: bytes if the line is not UTF-8, which remain as they are."""
    is_utf8 = True
    try:
        decoded = line.decode("utf-8")
    except UnicodeDecodeError as error:
        if chunk.errors == "strict":
            raise invalid_utf8_error(origin, line[error.start], error.start) from None
        # Of surrogates, only the bytes that are not UTF-8 shall remain.
        decoded = _ESCAPE.sub(_without_surrogate, line.decode("utf-8", "surrogateescape"))
        is_utf8 = False
    try:
        # A byte order mark may come before the first line.
        row = json.loads(decoded.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:  # also of an integer with thousands of digits
        raise ValueError(f"{origin}: not JSON ({error}): {line[:60]!r}") from None
    if not isinstance(row, dict):
        raise ValueError(f"{origin}: a JSON {type(row).__name__}, not an object: {line[:60]!r}")
    if chunk.field not in row:
        raise ValueError(f"{origin}: no field {chunk.field!r}; there are {sorted(row)[:20]}")
    text = row[chunk.field]
    if text is None:
        return ""
    if not isinstance(text, str):
        raise ValueError(f"{origin}: field {chunk.field!r} is {text!r:.60}, not a string")
    return text if is_utf8 else text.encode("utf-8", "surrogateescape")


def _without_surrogate(escape: re.Match[str]) -> str:
    """Return an escape of JSON; U+FFFD for a surrogate alone, as elsewhere."""
    return r"\ufffd" if escape.lastgroup == "surrogate" else escape[0]


# --- CSV -----------------------------------------------------------------------------------------


def _csv_rows(chunk: Chunk) -> Iterator[tuple[str, str | bytes, int]]:
    """Yield the text of every row of a CSV file."""
    assert chunk.field is not None
    with open_path(chunk.path) as file:
        for location, text in column_texts(file, chunk.path, chunk.field, chunk.max_piece_bytes):
            yield location, text, min(file.tell(), chunk.num_bytes)


# --- Parquet and Arrow ---------------------------------------------------------------------------


def _table_rows(chunk: Chunk) -> Iterator[tuple[str, str | bytes, int]]:
    """Yield the text of every row of a chunk that has one."""
    is_parquet = chunk.kind == "parquet"
    groups = None if chunk.end == WHOLE_FILE else range(chunk.start, chunk.end)
    of_group = (
        "" if groups is None else f" of {'row group' if is_parquet else 'batch'} {chunk.start}"
    )
    with open_path(chunk.path) as file:
        if is_parquet:
            reader = open_parquet(file, chunk.path)
            num_rows = sum(reader.metadata.row_group(group).num_rows for group in groups or ())
        else:
            reader = open_arrow(file, chunk.path)
            num_rows = 0  # not known before a batch is read
        assert chunk.field is not None
        row = 0
        for batch in batches_of(reader, chunk.path, chunk.field, groups):
            total = num_rows or (batch.num_rows if groups is not None else 0)
            with explained(f"{chunk.path} cannot be read from row {row:,}{of_group} on"):
                texts = array_texts(batch.column(0))
            for text in texts:
                row += 1
                if text is not None:
                    if len(text) > chunk.max_piece_bytes:
                        where = f"{chunk.path}, row {row - 1:,}{of_group}"
                        raise piece_too_long(where, chunk.max_piece_bytes)
                    num_read = chunk.num_bytes * row // total if total else file.tell()
                    yield f"row {row - 1:,}{of_group}", text, min(num_read, chunk.num_bytes)
