"""Token files: text as one long array of ids that is mapped into memory, not read.

FILE.npy is a plain NumPy array, one dimension, uint16 or uint32. FILE.json beside it says which
tokenizer made it and how much there is. Both are checked when the file is opened: ids of another
tokenizer look like any other numbers, and a model would learn noise from them. FILE.starts.npy, if
it was asked for, is an int64 array of the places where documents begin.

Plain text is encoded by threads that read blocks of it themselves. Everything else (compressed
text, JSON lines, Parquet) is read here and encoded by threads in batches; so is plain text where
the compiled encoder cannot do it all, then by worker processes. The ids are the same.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import json
import os
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

import cs336_basics
from cs336_basics._files import (
    atomic_writer,
    dump_json,
    naming,
    printable_path,
    sync_directory,
    sync_open_file,
)
from cs336_basics._progress import byte_bar
from cs336_basics._text import END_OF_TEXT
from cs336_basics.pretokenization.chunking import check_chunk_size
from cs336_basics.pretokenization.parallel import map_ordered, resolve_num_workers
from cs336_basics.pretokenization.readers import (
    TextPart,
    cut_into_pieces,
    is_plain_text,
    read_texts,
    to_utf8,
)
from cs336_basics.pretokenization.word_counts import input_files
from cs336_basics.tokenizer.ids import TokenArray, token_dtype
from cs336_basics.tokenizer.text_input import checked_utf8
from cs336_basics.tokenizer.tokenizer import Tokenizer

DEFAULT_CHUNK_SIZE = 1 << 19
"""Bytes of text encoded at a time: enough to hide the cost of handing them out."""

_METADATA_KEYS = (
    "tokenizer_hash",
    "vocab_size",
    "dtype",
    "num_tokens",
    "num_bytes",
    "bytes_per_token",
    "source",
    "library_version",
)

# A batch this large is encoded where Ctrl-C is seen: a thread of Python's cannot be interrupted.
_LARGE_BATCH = 16 << 20

_WRITE_BACK_SIZE = 2 << 20

Places = npt.NDArray[np.int64]
Item = TypeVar("Item")
Result = TypeVar("Result")


def encode_file(
    tokenizer: Tokenizer,
    source: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    destination: str | os.PathLike[str],
    *,
    num_workers: int | None = None,
    progress: bool = False,
    overwrite: bool = False,
    errors: str = "replace",
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    field: str | None = None,
    column: str | None = None,
    document_starts: bool = False,
    end_of_document: str | None = None,
) -> dict[str, Any]:
    """Encode files of text to a token file, in constant memory whatever their size.

    The ids are those of the whole text, the same for every number of workers and every chunk size.
    Files and rows do not join: no token spans two of them. The files appear under their names when
    they are complete; after an error there is neither, and what they would replace is kept.

    Args:
        tokenizer: encodes the text.
        source: a file, a pattern such as `"data/*.txt"`, or several of both, in the order in which
            they are encoded (those of a pattern sorted). UTF-8 text, JSON lines (`.jsonl`), either
            of them compressed (`.gz`, `.zst`), or Parquet; see `pretokenization/inputs.py`. Text is
            read as bytes: line ends and a byte order mark are text.
        destination: FILE.npy; FILE.json is written beside it.
        num_workers: threads, or worker processes where the compiled encoder cannot do it all; None
            = one for each core. No more are started than there are chunks.
        progress: show a progress bar on a terminal.
        overwrite: replace files that exist.
        errors: `"replace"` reads bytes that are not UTF-8 as U+FFFD; `"strict"` refuses them.
        chunk_size: bytes of text encoded at a time.
        field: of JSON lines, the field that has the text.
        column: of Parquet, the column that has the text.
        document_starts: also write FILE.starts.npy, for `load_document_starts`. A document begins
            with every file of text, with every row, and after every `end_of_document` in the text
            (`<|endoftext|>`, if there is none and the tokenizer has it). One without a token is
            none.
        end_of_document: a special token to put after every row and every file of text that has
            tokens and does not end with it already.

    Returns:
        what FILE.json holds: tokenizer_hash, vocab_size, dtype (uint16, or uint32 where ids reach
        65,536), num_tokens, num_bytes (of the text, as it is uncompressed), bytes_per_token,
        source (a path, or a list of several), library_version; with `document_starts` also
        num_documents and document_separator (a special token or None), with `end_of_document` that.

    Raises:
        FileNotFoundError: there is no such source.
        FileExistsError: a destination exists, and `overwrite` is false.
        ValueError: the source is empty, a directory, damaged, became shorter, lacks the field or
            column, or is (`"strict"`) not UTF-8, with the place; the destination does not end in
            .npy, or is a source; `end_of_document` is not a special token; the vocabulary lacks a
            byte of the text.
        OSError: a source cannot be read, or the destination not be written (the disk is full).
        ImportError: a library for the format is missing, named with the command that installs it.
        RuntimeError: a worker process died.
    """
    files = input_files(source, "source")
    sizes = [file.stat().st_size for file in files]
    if sum(sizes) == 0:
        names = ", ".join(map(str, files[:3])) or "source"
        raise ValueError(f"{names} is empty: there is nothing to encode")
    destination = Path(destination)
    _check_destination(destination, files, overwrite, document_starts)
    if errors not in ("replace", "strict"):
        raise ValueError(f"errors is {errors!r}: it must be 'replace' or 'strict'")
    check_chunk_size(chunk_size)
    # (For its errors: what can fail should fail before the work, not after it.)
    cut_into_pieces((file for file in files if not is_plain_text(file)), field=field, column=column)
    separator = end_of_document
    if separator is None and END_OF_TEXT in tokenizer.special_tokens:
        separator = END_OF_TEXT
    options = _Options(
        errors,
        chunk_size,
        field,
        column,
        end_id=_special_id(tokenizer, end_of_document),
        separator_id=_special_id(tokenizer, separator if document_starts else None),
    )
    dtype = token_dtype(tokenizer.vocab_size)
    num_workers = resolve_num_workers(num_workers)

    num_bytes = 0
    with _new_token_file(destination, dtype, document_starts, options.end_id) as (
        writer,
        metadata_file,
    ):
        with (
            byte_bar(progress, sum(sizes), f"encoding {_title(files)}") as bar,
            contextlib.closing(
                _encode_files(tokenizer, files, sizes, options, num_workers)
            ) as parts,
        ):
            for part in parts:
                writer.write(part)
                num_bytes += part.num_bytes
                bar.update(part.position - bar.n)
        num_tokens, num_documents = writer.finish()
        if num_tokens == 0:
            names = ", ".join(map(str, files[:3]))
            raise ValueError(f"{names} gave no tokens: the pattern matches nothing in it")
        metadata = {
            "tokenizer_hash": tokenizer.hash(),
            "vocab_size": tokenizer.vocab_size,
            "dtype": dtype.name,
            "num_tokens": num_tokens,
            "num_bytes": num_bytes,
            "bytes_per_token": num_bytes / num_tokens,
            "source": _names(files),
            "library_version": cs336_basics.__version__,
        }
        if document_starts:
            metadata["num_documents"] = num_documents
            metadata["document_separator"] = separator
        if end_of_document is not None:
            metadata["end_of_document"] = end_of_document
        dump_json(metadata, metadata_file)
    return metadata


def load_token_file(
    path: str | os.PathLike[str],
    *,
    vocab_size: int | None = None,
    tokenizer_hash: str | None = None,
) -> TokenArray:
    """Open a token file as a read-only memory map, after checking it against its FILE.json.

    Args:
        path: FILE.npy, as `encode_file` writes it.
        vocab_size: the number of ids that a model knows; the file's must all be below it.
        tokenizer_hash: `Tokenizer.hash()` of the tokenizer that must have made the file.

    Returns:
        token ids of shape (num_tokens,), dtype uint16 or uint32.

    Raises:
        FileNotFoundError: FILE.npy or FILE.json is missing.
        ValueError: one of them is malformed, they do not belong together, or the file was made for
            another tokenizer or a larger vocabulary.
    """
    path = Path(path)
    metadata_path = path.with_suffix(".json")
    for needed in (path, metadata_path):
        if not needed.is_file():
            raise FileNotFoundError(
                f"{needed} does not exist: a token file is a pair, {path.name} and "
                f"{metadata_path.name}. Make it with `python -m cs336_basics encode --tokenizer "
                f"DIR --input FILE --output {path}`"
            )
    metadata = _load_metadata(metadata_path)
    tokens: TokenArray = _load_array(path)
    if tokens.dtype.kind != "u":
        raise ValueError(f"{path} does not hold one row of unsigned ids: encode it again")
    found = {"dtype": tokens.dtype.name, "num_tokens": len(tokens)}
    for key, value in found.items():
        if metadata[key] != value:
            raise ValueError(
                f"{path} has {key} {value}, but {metadata_path.name} says {metadata[key]}: they do "
                "not belong together. Encode the text again"
            )
    if tokenizer_hash is not None and metadata["tokenizer_hash"] != tokenizer_hash:
        raise ValueError(
            f"{path} was made by the tokenizer {metadata['tokenizer_hash']}, not by "
            f"{tokenizer_hash}: load that tokenizer, or encode {_name_of(metadata)} again with this"
        )
    if vocab_size is not None and metadata["vocab_size"] > vocab_size:
        raise ValueError(
            f"{path} has ids up to {metadata['vocab_size'] - 1}, beyond a vocabulary of "
            f"{vocab_size}: set vocab_size to {metadata['vocab_size']}, or encode the text with a "
            "smaller tokenizer"
        )
    return tokens


def load_document_starts(path: str | os.PathLike[str]) -> Places:
    """Open the document starts of a token file as a read-only memory map.

    Args:
        path: FILE.npy, which `encode_file` wrote with `document_starts=True`.

    Returns:
        places in FILE.npy, of shape (num_documents,), dtype int64, ascending: document i is
        `tokens[starts[i] : starts[i + 1]]`, the last one goes to the end.

    Raises:
        FileNotFoundError: FILE.npy, FILE.json or FILE.starts.npy is missing.
        ValueError: one of them is malformed, they do not belong together, or the file was made
            without document starts.
    """
    path = Path(path)
    tokens = load_token_file(path)
    metadata_path, starts_path = _beside(path)
    num_documents = _load_metadata(metadata_path).get("num_documents")
    if num_documents is None:
        raise ValueError(
            f"{path} was encoded without document starts: encode the text again with "
            "document_starts=True (--document-starts)"
        )
    if not starts_path.is_file():
        raise FileNotFoundError(f"{starts_path} does not exist: encode the text again")
    starts: Places = _load_array(starts_path)
    if starts.dtype != np.int64 or len(starts) != num_documents:
        raise ValueError(
            f"{starts_path} holds {len(starts)} places of {starts.dtype}, but {metadata_path.name} "
            f"says {num_documents} documents: they do not belong together. Encode the text again"
        )
    if len(starts) and not (starts[0] == 0 and starts[-1] < len(tokens)):
        raise ValueError(f"{starts_path} does not fit {path.name}: encode the text again")
    return starts


# --------------------------------------------------------------------- encoding


@dataclass(frozen=True)
class _Options:
    """What `encode_file` was asked for; ids of special tokens are None for none."""

    errors: str
    chunk_size: int
    field: str | None
    column: str | None
    end_id: int | None
    separator_id: int | None


@dataclass(frozen=True)
class _Batch:
    """Some texts of the source, and the bytes of it on the disk that are read by then."""

    texts: list[TextPart]
    position: int


@dataclass(frozen=True)
class _Encoded:
    """The ids of a part of the source.

    Attributes:
        ids: of shape (n,); it holds until the next part is asked for.
        begins: a file or row begins with the first of them.
        places: where in 1..n a document ends, so that another may begin, ascending.
        num_bytes: of the text.
        position: the bytes of the source on the disk that are read by then.
    """

    ids: TokenArray
    begins: bool
    places: Places
    num_bytes: int
    position: int


def _encode_files(
    tokenizer: Tokenizer,
    files: Sequence[Path],
    sizes: Sequence[int],
    options: _Options,
    num_workers: int,
) -> Generator[_Encoded, None, None]:
    """Yield the ids of all files in order. Closing the generator ends what is under way."""
    if not tokenizer._is_scanned():
        num_workers = min(num_workers, -(-sum(sizes) // options.chunk_size))
        batches = _read_batches(tokenizer, files, sizes, 0, options)
        yield from _encode_in_processes(tokenizer, batches, options, num_workers)
        return
    position = 0
    for is_plain, group in itertools.groupby(
        zip(files, sizes, strict=True), key=lambda file: is_plain_text(file[0])
    ):
        group_files, group_sizes = zip(*group, strict=True)
        if is_plain:
            yield from _encode_plain_text(
                tokenizer, group_files, group_sizes, position, options, num_workers
            )
        else:
            yield from _map_in_threads(
                lambda batch: _encode_batch(tokenizer, batch, options),
                _read_batches(tokenizer, group_files, group_sizes, position, options),
                num_workers,
                here=lambda batch: sum(len(part.text) for part in batch.texts) > _LARGE_BATCH,
            )
        position += sum(group_sizes)


def _encode_plain_text(
    tokenizer: Tokenizer,
    files: Sequence[Path],
    sizes: Sequence[int],
    position: int,
    options: _Options,
    num_workers: int,
) -> Iterator[_Encoded]:
    """Yield the ids of files of text, which the threads that encode them read, too."""
    from cs336_basics.tokenizer import _encoder

    size = min(options.chunk_size, max(1, *sizes))  # (C++ cannot count to any number)
    first_blocks = set(itertools.accumulate((-(-length // size) for length in sizes), initial=0))
    encoding = _encoder.FileEncoding(
        tokenizer._native,
        files,
        sizes,
        tokenizer._special_set(tokenizer.special_tokens),
        size,
        num_workers,
        options.errors == "strict",
        options.separator_id,
    )
    with contextlib.closing(encoding):
        try:
            for block, (ids, places, num_bytes) in enumerate(encoding):
                position += num_bytes
                yield _Encoded(ids, block in first_blocks, places, num_bytes, position)
        except _encoder.AbsentByteError as error:
            raise _absent_byte_in_file(files[error.item], error.offset, error.byte) from None


def _read_batches(
    tokenizer: Tokenizer,
    files: Iterable[Path],
    sizes: Iterable[int],
    position: int,
    options: _Options,
) -> Iterator[_Batch]:
    """Yield the texts of files of any kind, about `chunk_size` bytes together."""
    texts: list[TextPart] = []
    num_bytes = 0
    for file, size in zip(files, sizes, strict=True):
        for part in read_texts(
            file,
            tokenizer.special_tokens,
            tokenizer.pattern,
            options.errors,
            field=options.field,
            column=options.column,
            block_size=options.chunk_size,
        ):
            texts.append(part)
            num_bytes += len(part.text)
            if num_bytes >= options.chunk_size:
                yield _Batch(texts, position + part.position)
                texts, num_bytes = [], 0
        position += size
    if texts:
        yield _Batch(texts, position)


def _encode_in_processes(
    tokenizer: Tokenizer, batches: Iterable[_Batch], options: _Options, num_workers: int
) -> Iterator[_Encoded]:
    if num_workers == 1:
        for batch in batches:
            yield _encode_batch(tokenizer, batch, options)
        return
    # A tokenizer is too large to send with every batch: each worker reads it once.
    with tempfile.TemporaryDirectory() as directory:
        tokenizer.save(directory)
        arguments = ((directory, batch, options) for batch in batches)
        yield from map_ordered(_encode_batch_in_worker, arguments, num_workers)


def _encode_batch_in_worker(directory: str, batch: _Batch, options: _Options) -> _Encoded:
    return _encode_batch(_load_once(directory), batch, options)


@functools.lru_cache(maxsize=1)
def _load_once(directory: str) -> Tokenizer:
    return Tokenizer.from_directory(directory)


def _encode_batch(tokenizer: Tokenizer, batch: _Batch, options: _Options) -> _Encoded:
    """Return the ids of some texts, with the ends of documents where they are known here."""
    texts = [_valid_utf8(part, options.errors) for part in batch.texts]
    ids, lengths = _encode_texts(tokenizer, batch.texts, texts)
    # Where a file or row begins, the one before has ended. Only one that ended before this batch is
    # not known here: _TokenWriter looks after it.
    begins = np.array([part.begins for part in batch.texts], bool)
    places = np.unique((np.cumsum(lengths) - lengths)[begins])
    places = places[places > 0]
    if options.end_id is not None:
        lacking = places[ids[places - 1] != options.end_id]
        ids = np.insert(ids, lacking, options.end_id)
        places = places + np.searchsorted(lacking, places, side="right")
    if options.separator_id is not None:
        places = np.union1d(places, np.flatnonzero(ids == options.separator_id) + 1)
    # Bytes that are not UTF-8 count as they are in the file.
    num_bytes = sum(
        len(part.text if isinstance(part.text, bytes) else text)
        for part, text in zip(batch.texts, texts, strict=True)
    )
    return _Encoded(ids, batch.texts[0].begins, places, num_bytes, batch.position)


def _encode_texts(
    tokenizer: Tokenizer, parts: list[TextPart], texts: list[bytes]
) -> tuple[TokenArray, Places]:
    """Return the ids of texts one after the other, and the number of each."""
    if tokenizer._is_scanned():
        from cs336_basics.tokenizer import _encoder

        special = tokenizer._special_set(tokenizer.special_tokens)
        try:
            found: tuple[TokenArray, Places]
            found = tokenizer._native.encode_documents(texts, special, 1)
            return found
        except _encoder.AbsentByteError as error:
            raise _absent_byte_in_text(parts[error.item], texts[error.item], error.offset) from None
    lists = []
    for part, text in zip(parts, texts, strict=True):
        try:
            lists.append(tokenizer.encode(text.decode()))
        except ValueError as error:
            raise ValueError(f"{_where(part)}: {error}") from None
    ids = np.fromiter(itertools.chain.from_iterable(lists), token_dtype(tokenizer.vocab_size))
    return ids, np.array([len(one) for one in lists], np.int64)


def _valid_utf8(part: TextPart, errors: str) -> bytes:
    """Return a text as valid UTF-8."""
    try:
        data = to_utf8(part.text, errors)
        if isinstance(part.text, str):
            return data
        if part.offset is None or errors == "replace":
            return checked_utf8(data, errors)
    except ValueError as error:
        raise ValueError(f"{part.where}: {error}") from None
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{part.where}: byte {data[error.start]:#04x} at offset "
            f"{part.offset + error.start:,} is not valid UTF-8; errors='replace' would read it as "
            "U+FFFD"
        ) from None
    return data


def _map_in_threads(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    num_workers: int,
    *,
    here: Callable[[Item], bool] = lambda _: False,
) -> Generator[Result, None, None]:
    """Yield `function(item)` for each of `items`, in their order, computed by threads.

    Like `map_ordered`, it reads `items` only a few ahead of the results. Even one worker is a
    thread: this one waits for Ctrl-C, and whoever takes the results writes them meanwhile.

    Args:
        function: must give the GIL away, or threads are of no use.
        here: tells which items this thread computes itself.
    """
    executor = ThreadPoolExecutor(num_workers)
    pending: collections.deque[Future[Result]] = collections.deque()
    try:
        for item in items:
            pending.append(_done(function, item) if here(item) else executor.submit(function, item))
            if len(pending) > 2 * num_workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _done(function: Callable[[Item], Result], item: Item) -> Future[Result]:
    future: Future[Result] = Future()
    try:
        future.set_result(function(item))
    except Exception as error:  # it is raised when its turn comes
        future.set_exception(error)
    return future


def _where(part: TextPart) -> str:
    return part.where + (
        "" if part.offset is None else f", the text that begins at byte {part.offset:,}"
    )


def _absent_byte_in_file(path: Path, offset: int, byte: int) -> ValueError:
    """Return the error for a byte, which is at `offset` of a file, or behind it among others."""
    with open(path, "rb") as file:
        start = max(0, offset - 3)
        file.seek(start)
        around = file.read(7)
    where = str(path)
    if around[offset - start : offset - start + 1] != bytes([byte]):
        # What stands at the place of bytes that are not UTF-8 is not in the file.
        return _absent_byte_error(f"{where}, the text that begins at byte {offset:,}", byte)
    return _absent_byte_error(where, byte, around, offset - start, offset)


def _absent_byte_in_text(part: TextPart, text: bytes, offset: int) -> ValueError:
    """Return the error for the byte at `offset` of what a part was made to be UTF-8."""
    if part.offset is not None and part.text != text:
        return _absent_byte_error(_where(part), text[offset])
    start = max(0, offset - 3)
    around = text[start : offset + 4]
    return _absent_byte_error(
        part.where, text[offset], around, offset - start, offset + (part.offset or 0)
    )


def _absent_byte_error(
    where: str, byte: int, around: bytes = b"", index: int = 0, place: int | None = None
) -> ValueError:
    """Return the error for `around[index]`, which is at byte `place` of a text."""
    found = ""
    if place is not None:
        start = index
        while start > 0 and around[start] & 0xC0 == 0x80:
            start -= 1
        character = around[start : start + 4].decode(errors="replace")[:1]
        found = f" of {character!r} at byte {place:,}"
    return ValueError(
        f"{where}: the vocabulary has no token for the byte {byte:#04x}{found}: add it to the "
        "vocabulary, or remove the character"
    )


# --------------------------------------------------------------------- writing


@contextlib.contextmanager
def _new_token_file(
    destination: Path, dtype: np.dtype[Any], document_starts: bool, end_id: int | None
) -> Iterator[tuple[_TokenWriter, IO[str]]]:
    """Open a token file for writing: its ids and document starts, and its metadata.

    All appear under their names when the block ends without an exception.
    """
    metadata_path, starts_path = _beside(destination)
    had_starts = _has_starts(metadata_path)
    committing = False
    try:
        # Left from the last to the first: the metadata, without which nothing is loaded, come last.
        with contextlib.ExitStack() as stack:
            metadata_file = stack.enter_context(atomic_writer(metadata_path, "w"))
            starts = None
            if document_starts:
                file = stack.enter_context(atomic_writer(starts_path, "w+b"))
                starts = _ArrayFile(file, starts_path, np.dtype("<i8"))
            file = stack.enter_context(atomic_writer(destination, "w+b"))
            ids = _ArrayFile(file, destination, dtype)
            yield _TokenWriter(ids, starts, end_id), metadata_file
            with naming(metadata_path):
                sync_open_file(metadata_file)
            # All is on the disk; only names change from here on. Until the new FILE.json is there,
            # the new ids must not stand beside the old one.
            if metadata_path.exists():
                metadata_path.unlink()
                sync_directory(metadata_path.parent)
            committing = True
            if had_starts and not document_starts:
                starts_path.unlink(missing_ok=True)
    except BaseException:
        if committing:
            for path in (metadata_path, destination, *([starts_path] if document_starts else [])):
                path.unlink(missing_ok=True)
        raise


class _ArrayFile:
    """A .npy file of one dimension to which arrays are appended.

    Attributes:
        dtype: of the elements.
        length: their number so far.
    """

    def __init__(self, file: IO[bytes], path: Path, dtype: np.dtype[Any]) -> None:
        self._file = file
        self._path = path
        self.dtype = dtype
        self.length = 0
        self._sent = 0  # bytes
        with naming(path):
            self._header_size = self._write_header()

    def append(self, array: npt.NDArray[Any]) -> None:
        with naming(self._path):
            self._file.write(array.data)
        self.length += len(array)
        self._start_write_back()

    def finish(self) -> None:
        """Write the length, now that it is known, and put all on the disk."""
        with naming(self._path):
            self._file.seek(0)
            # The header is padded, so that it does not grow.
            if self._write_header() != self._header_size:
                raise RuntimeError(f"the header of {self._path} changed its size")
            sync_open_file(self._file)

    def _start_write_back(self) -> None:
        """Let the disk write while the next text is encoded: the fsync at the end is short then."""
        # Of all that Linux does for this advice only one thing happens to pages that are not on the
        # disk yet: they are sent there. (Other systems do nothing, or something like it.)
        pending = self.length * self.dtype.itemsize - self._sent
        if pending >= _WRITE_BACK_SIZE and hasattr(os, "posix_fadvise"):
            place = self._file.tell() - pending
            with contextlib.suppress(OSError):  # a file system may not take advice
                os.posix_fadvise(self._file.fileno(), place, pending, os.POSIX_FADV_DONTNEED)
            self._sent += pending

    def _write_header(self) -> int:
        header = {
            "descr": np.lib.format.dtype_to_descr(self.dtype),
            "fortran_order": False,
            "shape": (self.length,),
        }
        np.lib.format.write_array_header_1_0(self._file, header)
        return self._file.tell()


class _TokenWriter:
    """Writes ids, the ends of documents where they are missing, and where documents begin."""

    def __init__(self, ids: _ArrayFile, starts: _ArrayFile | None, end_id: int | None) -> None:
        self._ids = ids
        self._starts = starts
        self._end_id = end_id
        self._last: int | None = None  # the last id of this file or row, None if it has none
        self._ended = True  # the next id begins a document

    def write(self, part: _Encoded) -> None:
        if part.begins:
            self._end_document()
        self._write_ids(part.ids, part.places)

    def finish(self) -> tuple[int, int]:
        """Put all on the disk; return the number of ids and that of document starts."""
        self._end_document()
        self._ids.finish()
        if self._starts is None:
            return self._ids.length, 0
        self._starts.finish()
        return self._ids.length, self._starts.length

    def _end_document(self) -> None:
        """The end of a file or row."""
        if self._end_id is not None and self._last not in (None, self._end_id):
            self._write_ids(np.array([self._end_id], self._ids.dtype), np.empty(0, np.int64))
        self._last = None
        self._ended = True

    def _write_ids(self, ids: TokenArray, places: Places) -> None:
        if not len(ids):
            return
        if self._starts is not None:
            first = [0] if self._ended else []
            inside = places[places < len(ids)]
            self._starts.append(self._ids.length + np.concatenate([first, inside]).astype("<i8"))
            self._ended = len(inside) < len(places)
        self._ids.append(ids)
        self._last = int(ids[-1])


# --------------------------------------------------------------------- names and checks


def _beside(path: Path) -> tuple[Path, Path]:
    """Return the names of FILE.json and FILE.starts.npy for FILE.npy."""
    return path.with_suffix(".json"), path.with_suffix(".starts.npy")


def _check_destination(
    destination: Path, sources: Iterable[Path], overwrite: bool, document_starts: bool
) -> None:
    """Check that FILE.npy and what is written beside it may be written."""
    if destination.suffix != ".npy":
        raise ValueError(f"{destination} does not end in .npy: a token file is a NumPy array")
    metadata_path, starts_path = _beside(destination)
    read = {(file.stat().st_dev, file.stat().st_ino) for file in sources}
    for path in (destination, metadata_path, *([starts_path] if document_starts else [])):
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a directory: choose another name")
        if not path.exists():
            continue
        if (path.stat().st_dev, path.stat().st_ino) in read:
            raise ValueError(f"{path} would replace the text that is encoded: choose another name")
        if not overwrite:
            raise FileExistsError(
                f"{path} exists: choose another name, or replace it with overwrite=True "
                "(--overwrite)"
            )


def _has_starts(metadata_path: Path) -> bool:
    """Tell whether the token file that is there now has document starts."""
    try:
        return "num_documents" in _load_metadata(metadata_path)
    except (OSError, ValueError):
        return False


def _special_id(tokenizer: Tokenizer, token: str | None) -> int | None:
    return None if token is None else tokenizer.special_token_id(token)


def _names(files: list[Path]) -> str | list[str]:
    names = [printable_path(file) for file in files]
    return names[0] if len(names) == 1 else names


def _title(files: list[Path]) -> str:
    return files[0].name if len(files) == 1 else f"{len(files):,} files"


def _name_of(metadata: dict[str, Any]) -> str:
    source = metadata["source"]
    return str(source) if not isinstance(source, list) else f"its {len(source):,} sources"


def _load_array(path: Path) -> npt.NDArray[Any]:
    """Map a .npy file of one dimension into memory."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is not a whole .npy file: {error}. Encode it again") from error
    if not isinstance(array, np.ndarray) or array.ndim != 1:
        raise ValueError(f"{path} does not hold one row of numbers: encode it again")
    return array


def _load_metadata(path: Path) -> dict[str, Any]:
    try:
        metadata = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(metadata, dict):
        raise ValueError(f"{path} holds a {type(metadata).__name__}, not an object")
    for key in _METADATA_KEYS:
        if key not in metadata:
            raise ValueError(f"{path} has no {key!r}: it is not the metadata of a token file")
    if type(metadata["vocab_size"]) is not int:
        raise ValueError(f"{path}: vocab_size is {metadata['vocab_size']!r}, not a whole number")
    return metadata
