"""The pipeline from a corpus to the ids of its text, block by block, in constant memory.

The native encoder, which releases the GIL, reads plain text in its own threads. Other text
(compressed text, JSON Lines, Parquet) is read here and encoded in threads, batch by batch. With any
other encoder, worker processes encode the batches. The ids are the same in all cases.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import pickle
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from cs336_basics._support.arguments import checked_bool
from cs336_basics._support.errors import InputError
from cs336_basics._support.lazy import np, npt
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.execution.parallel import map_ordered
from cs336_basics.text.corpus import Corpus
from cs336_basics.text.sources import TextBlock
from cs336_basics.text.text_changes import Replaced, TextChanges
from cs336_basics.text.utf8 import is_valid_utf8
from cs336_basics.tokenizer.encoders.absent_bytes import (
    AbsentByteError,
    absent_byte_error,
    absent_bytes_in,
)
from cs336_basics.tokenizer.encoders.encoder import Encoder
from cs336_basics.tokenizer.encoders.exact_bytes import EXACT, encode_exactly
from cs336_basics.tokenizer.files.token_writer import EncodedBlock
from cs336_basics.tokenizer.ids import TokenArray
from cs336_basics.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from cs336_basics.tokenizer.encoders.native_encoder import NativeEncoder

DEFAULT_CHUNK_SIZE = 1 << 19
"""Number of bytes of text to encode at a time, enough to hide the cost of passing them to a
worker."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class EncodingTask:
    """Settings for encoding text to a token file; see `encode_file`.

    Attributes:
        errors, chunk_size, document_starts, end_of_document: The arguments.
        splitter: Splitter of the tokenizer.
        end_id: Id to append to documents, or None.
        separator: Special token that separates documents within a text, or None.
        separator_id: Its id if document starts are written, else None.

    Raises:
        TypeError: If `document_starts` is not a bool.
        ValueError: If `end_of_document` is not a special token.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        errors: str,
        chunk_size: int = DEFAULT_CHUNK_SIZE,
        *,
        document_starts: bool = False,
        end_of_document: str | None = None,
    ) -> None:
        def id_of(token: str | None) -> int | None:
            return None if token is None else tokenizer.special_token_id(token)

        self.errors = errors
        self.splitter = tokenizer.splitter
        self.chunk_size = chunk_size
        self.document_starts = checked_bool("document_starts", document_starts)
        self.end_of_document = end_of_document
        self.end_id = id_of(end_of_document)
        self.separator = end_of_document
        if self.separator is None and END_OF_TEXT in tokenizer.special_tokens:
            self.separator = END_OF_TEXT
        self.separator_id = id_of(self.separator) if document_starts else None


class TextBatch(NamedTuple):
    """A batch of texts, and the number of bytes read from storage so far."""

    blocks: list[TextBlock]
    bytes_read: int


def encoded_blocks(
    tokenizer: Tokenizer,
    corpus: Corpus,
    task: EncodingTask,
    num_workers: int,
) -> Generator[EncodedBlock, None, None]:
    """Yield the ids of a corpus in order. Closing the generator stops the work."""
    encoder = tokenizer.encoder.file_encoder
    if encoder is None:
        # Any workers beyond the number of chunks would be idle.
        num_workers = max(1, min(num_workers, -(-corpus.num_bytes // task.chunk_size)))
        yield from encode_batches(tokenizer, read_batches(corpus, task, 0), task, num_workers)
        return
    bytes_read = 0
    groups = itertools.groupby(corpus.sources, key=lambda source: source.local_path is not None)
    for is_plain, group in groups:
        files = Corpus.of_sources(list(group))
        if is_plain:
            yield from _encode_plain_text(encoder, files, task, bytes_read, num_workers)
        else:
            batches = read_batches(files, task, bytes_read)
            yield from encode_batches(tokenizer, batches, task, num_workers)
        bytes_read += files.num_bytes


def _encode_plain_text(
    encoder: NativeEncoder,
    corpus: Corpus,
    task: EncodingTask,
    bytes_read: int,
    num_workers: int,
) -> Iterator[EncodedBlock]:
    """Yield the ids of plain-text files, which the encoding threads read."""
    sizes = [source.num_bytes for source in corpus.sources]
    # A huge chunk size would not fit a C++ integer.
    block_size = min(task.chunk_size, max(1, *sizes))
    encoding = encoder.encode_files(
        corpus.files,
        sizes,
        block_size=block_size,
        num_workers=num_workers,
        errors=task.errors,
        separator=task.separator_id,
        max_piece_bytes=corpus.sources[0].max_piece_bytes,
    )
    with contextlib.closing(encoding):
        before = None
        for file, ids, document_ends, num_bytes, replaced in encoding:
            bytes_read += num_bytes
            changes = TextChanges(num_bytes)
            changes.add_replaced(corpus.files[file], Replaced(*replaced))
            yield EncodedBlock(ids, file != before, document_ends, changes, bytes_read)
            before = file


def encode_batches(
    tokenizer: Tokenizer, batches: Iterable[TextBatch], task: EncodingTask, num_workers: int
) -> Generator[EncodedBlock, None, None]:
    """Yield the ids of batches of text, in order.

    Batches are encoded in threads, or in worker processes if the encoder does not release the GIL
    and there is more than one worker.
    """
    encoder = tokenizer.encoder
    if encoder.file_encoder is not None:
        yield from map_in_threads(
            lambda batch: encode_text_batch(encoder, batch, task), batches, num_workers
        )
    elif num_workers == 1:
        for batch in batches:
            yield encode_text_batch(encoder, batch, task)
    else:
        # Worker processes may not be able to import a subclass.
        plain = Tokenizer.of(tokenizer.definition, backend=tokenizer.backend)
        pickled = pickle.dumps(plain)
        arguments = ((pickled, batch, task) for batch in batches)
        yield from map_ordered(_encode_in_worker, arguments, num_workers)


def _encode_in_worker(pickled: bytes, batch: TextBatch, task: EncodingTask) -> EncodedBlock:
    return encode_text_batch(unpickled_once(pickled).encoder, batch, task)


@functools.lru_cache(maxsize=1)
def unpickled_once(pickled: bytes) -> Tokenizer:
    """Unpickle a tokenizer. Each worker process caches the result."""
    tokenizer: Tokenizer = pickle.loads(pickled)
    return tokenizer


def read_batches(corpus: Corpus, task: EncodingTask, bytes_read: int) -> Iterator[TextBatch]:
    """Yield the text of files in any format, in batches of about `task.chunk_size` bytes."""
    sizes = [source.num_bytes for source in corpus.sources]

    def blocks() -> Iterator[tuple[TextBlock, int]]:
        before = bytes_read
        for source, size in zip(corpus.sources, sizes, strict=True):
            for block in source.texts(task.splitter.safe_cuts, task.chunk_size):
                yield block, before + block.bytes_read
            before += size

    return text_batches(blocks(), task.chunk_size, bytes_read + sum(sizes))


def text_batches(
    blocks: Iterable[tuple[TextBlock, int]], chunk_size: int, size: int
) -> Iterator[TextBatch]:
    """Yield texts in batches of about `chunk_size` bytes.

    Args:
        blocks: Pairs of a text and the number of bytes read from storage so far.
        chunk_size: Minimum size of a batch, except for the last one.
        size: Total number of bytes in storage, reported with the last batch.
    """
    batch: list[TextBlock] = []
    num_bytes = 0
    for block, bytes_read in blocks:
        batch.append(block)
        num_bytes += len(block.text)
        if num_bytes >= chunk_size:
            yield TextBatch(batch, bytes_read)
            batch, num_bytes = [], 0
    if batch:
        yield TextBatch(batch, size)


def encode_text_batch(encoder: Encoder, batch: TextBatch, task: EncodingTask) -> EncodedBlock:
    """Return the ids of a batch, and the positions where documents end within it."""
    changes = TextChanges()
    texts = [_checked_text(block, task.errors, changes) for block in batch.blocks]
    try:
        if task.errors == EXACT and not all(map(is_valid_utf8, texts)):
            ids, lengths = _encode_exactly(encoder, texts)
        else:
            ids, lengths = encoder.encode_documents(texts, encoder.all_special)
    except AbsentByteError:
        raise _absent_byte(encoder, batch.blocks, texts) from None
    # The start of a file or row ends the previous document. TokenWriter handles documents that
    # ended with the previous batch.
    starting = np.array([block.starts_document for block in batch.blocks], bool)
    starts = np.unique((np.cumsum(lengths) - lengths)[starting])
    ends = starts[starts > 0]
    # Before the first start, there may be the rest of a document, without tokens.
    starts_document = len(ends) < len(starts)
    if task.end_id is not None:
        unmarked = ends[ids[ends - 1] != task.end_id]
        ids = np.insert(ids, unmarked, task.end_id)
        ends = ends + np.searchsorted(unmarked, ends, side="right")
    if task.separator_id is not None:
        ends = np.union1d(ends, np.flatnonzero(ids == task.separator_id) + 1)
    # The size counts the original bytes, not their replacements.
    changes.num_bytes = sum(
        len(block.text if isinstance(block.text, bytes) else text)
        for block, text in zip(batch.blocks, texts, strict=True)
    )
    return EncodedBlock(ids, starts_document, ends, changes, batch.bytes_read)


def _encode_exactly(
    encoder: Encoder, texts: list[bytes]
) -> tuple[TokenArray, npt.NDArray[np.int64]]:
    """Return the concatenated ids of arbitrary bytes, and the number of ids of each text."""
    arrays = [encode_exactly(encoder, text, encoder.all_special) for text in texts]
    return np.concatenate(arrays), np.array([len(ids) for ids in arrays], np.int64)


def _checked_text(block: TextBlock, errors: str, changes: TextChanges) -> bytes:
    """Return a text as valid UTF-8, and add any replacements to `changes`.

    With `errors="bytes"`, the bytes are returned unchanged.
    """
    if errors == EXACT and isinstance(block.text, bytes):
        return block.text
    return changes.utf8_of(
        block.text, errors, file=block.file, start=block.offset or 0, row=block.row
    )


def map_in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], num_workers: int
) -> Generator[Result, None, None]:
    """Yield `function(item)` for each item, in order. The calls run in threads.

    Like `map_ordered`, this function reads only a few items ahead of the results. Even a single
    worker runs in a separate thread, so that the calling thread can handle Ctrl-C and write
    results.

    Args:
        function: Function that releases the GIL.
        items: Arguments of the function.
        num_workers: Number of threads.
    """
    executor = ThreadPoolExecutor(num_workers)
    pending: collections.deque[Future[Result]] = collections.deque()
    try:
        for item in items:
            pending.append(executor.submit(function, item))
            if len(pending) > 2 * num_workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _absent_byte(encoder: Encoder, blocks: list[TextBlock], texts: list[bytes]) -> InputError:
    """Return the error for the first byte in a file or row that is not in the vocabulary.

    The offset is not exact if earlier bytes were replaced with U+FFFD.
    """
    for block, text in zip(blocks, texts, strict=True):
        for byte, offset in absent_bytes_in(encoder, text, encoder.all_special):
            where = f"{'at' if block.text == text else 'near'} offset"
            error = absent_byte_error(byte, f"{where} {(block.offset or 0) + offset:,}")
            return InputError(f"{block.origin}: {error}")
    raise AssertionError("the vocabulary contains every byte of the texts")
