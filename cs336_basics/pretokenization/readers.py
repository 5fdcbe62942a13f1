"""Inputs other than plain text files: compressed text, JSON lines, Parquet, texts in memory.

An input is cut into pieces that are counted independently: byte ranges of a file of text or of
JSON lines, row groups of a Parquet file, a compressed file as a whole. Rows and files never join:
each row is a document of its own.

| name ends in | is read as | by |
|---|---|---|
| `.jsonl`, `.ndjson` | one JSON object a line, the text in `field` | json |
| `.parquet` | rows, the text in `column` | pyarrow |
| anything else | UTF-8 text | |

`.gz` (gzip) or `.zst` (Zstandard) after text and JSON lines names a compressed file.
"""

from __future__ import annotations

import json
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, Protocol

from cs336_basics.pretokenization.chunking import (
    SafeCuts,
    became_shorter,
    next_cut,
    safe_blocks,
)
from cs336_basics.pretokenization.patterns import resolve_pattern
from cs336_basics.pretokenization.splitter import (
    check_special_tokens,
    has_scanner,
    pretokenize,
    split_special_tokens,
)
from cs336_basics.pretokenization.word_counts import WordCounts

DEFAULT_PIECE_SIZE = 32 << 20
"""Bytes of text or JSON lines in a piece."""

_BLOCK = 1 << 20
_COMPRESSED = (".gz", ".zst")
_JSON_LINES = (".jsonl", ".ndjson")
_WHOLE = -1


@dataclass(frozen=True)
class TextPart:
    """A document, or a part of one that can be split into pre-tokens by itself.

    Attributes:
        text: of a file of text its bytes, which need not be UTF-8; of a row what the file holds.
        begins: a document begins here; else the text goes on with the document before it.
        where: names the file and, of a row, the row: for messages.
        offset: of a file of text, the place of `text` in it (uncompressed), in bytes; None for
            a row.
        position: the bytes of the file on the disk that are read by now, about: for progress.
    """

    text: str | bytes
    begins: bool
    where: str
    offset: int | None
    position: int


@dataclass(frozen=True)
class Piece:
    """A part of the input that can be counted by itself.

    Attributes:
        path: a file, or for `ray_counting` a URL that fsspec opens.
        kind: `"text"`, `"jsonl"` or `"parquet"`.
        start, end: nominal byte range; the piece really begins at the first safe place (a line, for
            JSON lines) at or after `start` and ends at the first one at or after `end`, so that all
            pieces together cover the file once. For Parquet, row groups. End -1: the whole file.
        num_bytes: size of the piece on the disk, for progress.
    """

    path: str
    kind: str
    start: int
    end: int
    num_bytes: int


def kind_of(path: str | os.PathLike[str]) -> str:
    """Return `"text"`, `"jsonl"` or `"parquet"`, by the name of a file."""
    name = os.fspath(path).lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    if name.endswith(_JSON_LINES):
        return "jsonl"
    return "parquet" if name.endswith(".parquet") else "text"


def is_plain_text(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file is uncompressed text on this machine's disks."""
    name = os.fspath(path)
    return kind_of(name) == "text" and not name.lower().endswith(_COMPRESSED) and "://" not in name


def cut_into_pieces(
    paths: Iterable[str | os.PathLike[str]],
    *,
    field: str | None = None,
    column: str | None = None,
    piece_size: int = DEFAULT_PIECE_SIZE,
) -> list[Piece]:
    """Return the pieces of some files, without reading their text.

    Raises:
        ValueError: a JSON-lines file without `field`, a Parquet file without `column`, or one that
            lacks the column (the message lists those it has).
        FileNotFoundError: there is no such file.
        ImportError: a library for the format is missing; names the command that installs it.
    """
    pieces: list[Piece] = []
    for path in [os.fspath(path) for path in paths]:
        kind = kind_of(path)
        if kind == "jsonl" and field is None:
            raise ValueError(f"{path} holds JSON lines: say which field has the text, field='text'")
        if kind == "parquet":
            pieces.extend(_row_groups(path, column))
            continue
        size = _size_of(path)
        if path.lower().endswith(_COMPRESSED):
            pieces.append(Piece(path, kind, 0, _WHOLE, size))
            continue
        for start in range(0, size, piece_size):
            end = min(start + piece_size, size)
            pieces.append(Piece(path, kind, start, end, end - start))
    return pieces


def count_piece(
    piece: Piece,
    special_tokens: Iterable[str],
    pattern: str,
    errors: str,
    field: str | None = None,
    column: str | None = None,
) -> tuple[Mapping[bytes, int], int]:
    """Return the counts of a piece, and its `num_bytes`.

    Raises:
        ValueError: a truncated or damaged file, a line that is not JSON, a row without the field,
            (`"strict"`) text that is not UTF-8; the message names the file and the place.
        FileNotFoundError, OSError: the file vanished or cannot be read.
    """
    special_tokens = list(special_tokens)
    counter = text_counter(special_tokens, pattern, errors)
    cuts = SafeCuts(special_tokens, pattern)
    for place, text, _ in _texts_of(piece, cuts, errors, field, column):
        try:
            counter.count(to_utf8(text, errors))
        except ValueError as error:
            where = f"the text from byte {place:,} on" if isinstance(place, int) else place
            raise ValueError(f"{piece.path}, {where}: {error}") from None
    return counter.counts(), piece.num_bytes


def read_texts(
    path: str | os.PathLike[str],
    special_tokens: Iterable[str],
    pattern: str,
    errors: str,
    *,
    field: str | None = None,
    column: str | None = None,
    block_size: int = _BLOCK,
) -> Iterator[TextPart]:
    """Yield the texts of a file of any kind, in order; see the table above.

    Every row is a document. A file of text is one, in parts of about `block_size` bytes.

    Raises:
        ValueError, FileNotFoundError, ImportError, OSError: as `cut_into_pieces` and `count_piece`.
    """
    path = os.fspath(path)
    cuts = SafeCuts(special_tokens, pattern)
    size = os.stat(path).st_size
    pieces = cut_into_pieces([path], field=field, column=column, piece_size=max(size, 1))
    total = max(1, sum(piece.num_bytes for piece in pieces))
    done = 0
    for piece in pieces:
        for place, text, position in _texts_of(piece, cuts, errors, field, column, block_size):
            # (What a Parquet file says of its row groups is their size before compression.)
            yield TextPart(
                text,
                begins=not isinstance(place, int) or place == 0,
                where=path if isinstance(place, int) else f"{path}, {place}",
                offset=place if isinstance(place, int) else None,
                position=(done + position) * size // total,
            )
        done += piece.num_bytes


def _texts_of(
    piece: Piece,
    cuts: SafeCuts,
    errors: str,
    field: str | None,
    column: str | None,
    block_size: int = _BLOCK,
) -> Iterator[tuple[int | str, str | bytes, int]]:
    """Yield (place, text, position) of a piece.

    The place is the offset of a part of a text, or names a row. The position is how much of
    `piece.num_bytes` has been read.
    """
    if piece.kind == "parquet":
        assert column is not None
        return _parquet_rows(piece, column)
    if piece.kind == "jsonl":
        assert field is not None
        return _json_rows(piece, field, errors)
    return _text_blocks(piece, cuts, block_size)


def count_texts(
    texts: Iterable[str | bytes],
    special_tokens: Iterable[str] = (),
    *,
    pattern: str = "gpt2",
    errors: str = "replace",
) -> Mapping[bytes, int]:
    """Count the pre-tokens of texts in memory, such as the rows of a dataset.

    Each text is a document of its own: no word spans two of them. They are read one by one, so
    `texts` can be a generator over more than memory holds.

    Args:
        texts: strings, or UTF-8 bytes.
        special_tokens, pattern, errors: as for `count_words`.

    Raises:
        TypeError: a single str or bytes in place of several, or an item that is neither.
        ValueError: (`"strict"`) text that is not UTF-8, with its index; a bad pattern.
    """
    if isinstance(texts, (str, bytes)):
        raise TypeError("texts is a single text: pass a list of texts, [text]")
    resolve_pattern(pattern)
    counter = text_counter(check_special_tokens(special_tokens), pattern, errors)
    for index, text in enumerate(texts):
        try:
            counter.count(to_utf8(text, errors))
        except TypeError:
            raise TypeError(
                f"text {index:,} is a {type(text).__name__}, not str or bytes"
            ) from None
        except ValueError as error:
            raise ValueError(f"text {index:,}: {error}") from None
    return counter.counts()


def to_utf8(text: str | bytes, errors: str) -> bytes:
    """Return a text as UTF-8; what is bytes already is left to the counter to check.

    Raises:
        TypeError: neither str nor bytes.
        ValueError: (`"strict"`) a lone surrogate, which UTF-8 cannot hold; names its place.
    """
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is a {type(text).__name__}, not str or bytes")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        if errors == "strict":
            raise ValueError(
                f"the lone surrogate U+{ord(text[error.start]):04X} at character "
                f"{error.start:,} has no UTF-8"
            ) from None
        # UTF-16 holds surrogates; decoding replaces those that are alone.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


class TextCounting(Protocol):
    """What counts texts one after the other."""

    def count(self, text: bytes, /) -> None:
        """Count the pre-tokens of a complete text."""

    def counts(self) -> Mapping[bytes, int]:
        """Return the counts of all texts so far."""


def text_counter(special_tokens: list[str], pattern: str, errors: str) -> TextCounting:
    """Return the compiled counter if it is built and knows the pattern, else the readable one."""
    if has_scanner(pattern):
        return _NativeCounter(special_tokens, pattern, errors)
    return _PythonCounter(special_tokens, pattern, errors)


class _NativeCounter:
    def __init__(self, special_tokens: list[str], pattern: str, errors: str) -> None:
        from cs336_basics.pretokenization._counting import TextCounter

        self._counter = TextCounter(special_tokens, pattern, errors)
        self._special_tokens = special_tokens
        self._pattern = pattern

    def count(self, text: bytes, /) -> None:
        self._counter.count(text)

    def counts(self) -> WordCounts:
        return WordCounts(*self._counter.result(), self._pattern, self._special_tokens)


class _PythonCounter:
    def __init__(self, special_tokens: list[str], pattern: str, errors: str) -> None:
        self._special_tokens = special_tokens
        self._pattern = pattern
        self._errors = errors
        self._counts: Counter[str] = Counter()

    def count(self, text: bytes, /) -> None:
        try:
            decoded = text.decode("utf-8", self._errors)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"byte {text[error.start]:#04x} at offset {error.start:,} is not valid UTF-8; "
                'pass errors="replace" to read such bytes as U+FFFD'
            ) from None
        for part, is_special in split_special_tokens(decoded, self._special_tokens):
            if not is_special:
                self._counts.update(pretokenize(part, self._pattern))

    def counts(self) -> Counter[bytes]:
        return Counter({word.encode(): count for word, count in self._counts.items() if word})


# --- text ----------------------------------------------------------------------------------------


def _text_blocks(piece: Piece, cuts: SafeCuts, block_size: int) -> Iterator[tuple[int, bytes, int]]:
    """Yield a piece of text in blocks that can be split one by one."""
    with _open(piece.path) as file:
        if piece.end == _WHOLE:
            start = 0
            blocks = _decompressed(file, piece.path, block_size)
        else:
            start, end = (
                place if place == 0 else next_cut(file, place, cuts)
                for place in (piece.start, piece.end)
            )
            blocks = _range(file, piece.path, start, end, block_size)
        place = start
        for block in safe_blocks(blocks, cuts):
            read = file.tell() if piece.end == _WHOLE else place + len(block) - start
            yield place, block, min(read, piece.num_bytes)
            place += len(block)


def _range(file: IO[bytes], path: str, start: int, end: int, block_size: int) -> Iterator[bytes]:
    file.seek(start)
    while start < end:
        block = file.read(min(block_size, end - start))
        if not block:
            raise became_shorter(path, start, end)
        start += len(block)
        yield block


# --- JSON lines ----------------------------------------------------------------------------------


def _json_rows(piece: Piece, field: str, errors: str) -> Iterator[tuple[str, str, int]]:
    """Yield every line that begins within a piece."""
    with _open(piece.path) as file:
        if piece.end == _WHOLE:
            lines = _lines(_decompressed(file, piece.path, _BLOCK), 0)
        else:
            start = _next_line(file, piece.start, piece.end)
            if start == piece.end:
                return
            lines = _lines(iter(lambda: file.read(_BLOCK), b""), start)
            file.seek(start)
        for place, line in lines:
            if piece.end != _WHOLE and place >= piece.end:
                return
            where = f"the line at byte {place:,}"
            if line.strip():
                text = _field_of(line, field, errors, f"{piece.path}, {where}")
                read = file.tell() if piece.end == _WHOLE else place + len(line) - piece.start
                yield where, text, min(read, piece.num_bytes)
        size = file.seek(0, os.SEEK_END) if piece.end != _WHOLE else 0
        if size < piece.end:
            raise became_shorter(piece.path, size, piece.end)


def _next_line(file: IO[bytes], start: int, end: int) -> int:
    """Return where the first line at or after `start` begins, or `end`, or where the file ends.

    A line that lies across `start` belongs to the piece before, however far it goes on.
    """
    if start == 0:
        return 0
    place = start - 1
    file.seek(place)
    while place < end:
        block = file.read(min(_BLOCK, end - place))
        found = block.find(b"\n")
        if found >= 0:
            return place + found + 1
        if not block:
            return place
        place += len(block)
    return end


def _lines(blocks: Iterable[bytes], place: int) -> Iterator[tuple[int, bytes]]:
    """Yield (byte offset, line) from blocks of a file, the first of which begins at `place`."""
    rest: list[bytes] = []  # of a line that goes on; joined once, however long it is
    for block in blocks:
        first, *more = block.split(b"\n")
        rest.append(first)
        if not more:
            continue
        lines = [b"".join(rest), *more]
        rest = [lines.pop()]
        for line in lines:
            yield place, line
            place += len(line) + 1
    last = b"".join(rest)
    if last:
        yield place, last


def _field_of(line: bytes, field: str, errors: str, where: str) -> str:
    try:
        # A byte order mark may stand before the first line.
        row = json.loads(line.removeprefix(b"\xef\xbb\xbf").decode("utf-8", errors))
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: not valid UTF-8: {error}") from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON ({error}): {line[:60]!r}") from None
    if not isinstance(row, dict):
        raise ValueError(f"{where}: a JSON {type(row).__name__}, not an object: {line[:60]!r}")
    if field not in row:
        raise ValueError(f"{where}: no field {field!r}; there are {sorted(row)[:20]}")
    text = row[field]
    if text is None:
        return ""
    if not isinstance(text, str):
        raise ValueError(f"{where}: field {field!r} is {text!r:.60}, not a string")
    return text


# --- Parquet -------------------------------------------------------------------------------------


def _row_groups(path: str, column: str | None) -> Iterator[Piece]:
    with _open(path) as file:
        parquet = _parquet_file(file, path)
        columns = parquet.schema_arrow.names
        if column is None or column not in columns:
            asked = "say which has the text, column=..." if column is None else f"not {column!r}"
            raise ValueError(f"{path} has the columns {', '.join(columns)}: {asked}")
        kind = parquet.schema_arrow.field(column).type
        if not any(name in str(kind) for name in ("string", "binary")):
            raise ValueError(f"{path}: the column {column!r} holds {kind}, not strings")
        for group in range(parquet.num_row_groups):
            size = parquet.metadata.row_group(group).total_byte_size
            yield Piece(path, "parquet", group, group + 1, size)


def _parquet_rows(piece: Piece, column: str) -> Iterator[tuple[str, str | bytes, int]]:
    import pyarrow

    with _open(piece.path) as file:
        parquet = _parquet_file(file, piece.path)
        groups = list(range(piece.start, piece.end))
        num_rows = max(1, sum(parquet.metadata.row_group(group).num_rows for group in groups))
        row = 0
        try:
            for batch in parquet.iter_batches(1024, row_groups=groups, columns=[column]):
                for text in batch.column(0).to_pylist():
                    if text is not None:
                        where = f"row {row:,} of row group {piece.start}"
                        yield where, text, piece.num_bytes * (row + 1) // num_rows
                    row += 1
        except (pyarrow.ArrowException, OSError) as error:
            raise ValueError(
                f"{piece.path}, row {row:,} of row group {piece.start}: damaged ({error})"
            ) from error


def _parquet_file(file: IO[bytes], path: str) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError(
            f"reading {path} needs pyarrow: pip install 'cs336-basics[parquet]'"
        ) from None
    try:
        return pyarrow.parquet.ParquetFile(file)
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path} is not a whole Parquet file: {error}") from error


# --- opening -------------------------------------------------------------------------------------


def _open(path: str) -> IO[bytes]:
    """Open a file, or whatever fsspec has a protocol for (`s3://`, `gs://`, `memory://`, ...)."""
    if "://" not in path:
        return open(path, "rb")
    try:
        import fsspec
    except ImportError:
        raise ImportError(f"opening {path} needs fsspec: pip install 'cs336-basics[ray]'") from None
    opened: IO[bytes] = fsspec.open(path, "rb").open()
    return opened


def _size_of(path: str) -> int:
    with _open(path) as file:
        return file.seek(0, os.SEEK_END)


def _decompressed(file: IO[bytes], path: str, block_size: int) -> Iterator[bytes]:
    """Yield the decompressed bytes of an open .gz or .zst file, in blocks.

    Raises:
        ValueError: the file is damaged or ends too early; names it and how far it was read.
    """
    stream: Any
    if path.lower().endswith(".gz"):
        import gzip

        stream = gzip.GzipFile(fileobj=file)
        damaged: tuple[type[Exception], ...] = (EOFError, OSError, zlib.error)
    else:
        zstd = _zstd(path)
        stream = zstd.ZstdFile(file)
        damaged = (EOFError, zstd.ZstdError)
    done = 0
    with stream:
        while True:
            try:
                block: bytes = stream.read(block_size)
            except damaged as error:
                raise ValueError(
                    f"{path} is damaged or truncated after {done:,} decompressed bytes: {error}"
                ) from None
            if not block:
                return
            done += len(block)
            yield block


def _zstd(path: str) -> Any:
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        try:
            from backports import zstd
        except ImportError:
            raise ImportError(
                f"reading {path} needs Zstandard: pip install 'cs336-basics[zstd]'"
            ) from None
    return zstd
