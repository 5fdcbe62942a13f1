"""EncodeJob: encode batches of text to the ids of a token file, wherever they are encoded.

`encoded_blocks` yields the ids of a corpus, block by block, in constant memory. The native encoder
reads plain text on a local disk itself, in its own threads. All other text is read here, batch by
batch, and the batches are encoded in threads or, by an encoder that does not release the GIL, in
worker processes. The ids are the same in all cases.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from cs336_basics._support.arguments import checked_bool
from cs336_basics._support.errors import InputError
from cs336_basics._support.lazy import np, npt
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.execution.base import Executor
from cs336_basics.execution.executors import executor
from cs336_basics.text.reading_record import ReadingRecord, Replaced
from cs336_basics.text.sources import Source, TextBlock
from cs336_basics.text.utf8 import is_valid_utf8
from cs336_basics.tokenizer.dropout import Dropout, checked_dropout
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

Batch: TypeAlias = list[TextBlock]
"""Texts to encode at a time. The `bytes_read` of the last one counts from the start of the corpus,
for progress bars."""


class EncodeJob:
    """Encodes batches of text for a token file; see `encode_file`.

    Args:
        tokenizer, chunk_size, document_starts, end_of_document, dropout: See `encode_file`.
        errors: Name in ENCODING_ERRORS.

    Attributes:
        tokenizer, errors, chunk_size, document_starts, end_of_document: The arguments.
        dropout: The argument, or None if its probability is 0.
        end_id: Id to append to documents, or None.
        separator: Special token that separates documents within a text, or None.
        separator_id: Its id if document starts are written, else None.

    Raises:
        TypeError: If `document_starts` is not a bool.
        ValueError: If `end_of_document` is not a special token, or there is dropout for text that
            is encoded exactly (`errors="bytes"`).
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        errors: str,
        chunk_size: int = DEFAULT_CHUNK_SIZE,
        document_starts: bool = False,
        end_of_document: str | None = None,
        dropout: Dropout | None = None,
    ) -> None:
        def id_of(token: str | None) -> int | None:
            try:
                return None if token is None else tokenizer.special_token_id(token)
            except InputError as error:
                raise error.renamed(lambda _: "end_of_document") from None

        self.tokenizer = tokenizer
        self.errors = errors
        self.chunk_size = chunk_size
        self.document_starts = checked_bool("document_starts", document_starts)
        self.end_of_document = end_of_document
        self.end_id = id_of(end_of_document)
        self.separator = end_of_document
        if self.separator is None and END_OF_TEXT in tokenizer.special_tokens:
            self.separator = END_OF_TEXT
        self.separator_id = id_of(self.separator) if document_starts else None
        self.dropout = checked_dropout(dropout)
        if self.dropout is not None and errors == EXACT:
            raise InputError(
                "must be replace or strict with dropout, got 'bytes'", argument="errors"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        # Other processes may not be able to import a subclass of Tokenizer.
        given = self.tokenizer
        plain = given.with_definition(given.definition)
        settings = (
            self.errors,
            self.chunk_size,
            self.document_starts,
            self.end_of_document,
            self.dropout,
        )
        return _unpickled, (plain, given.source, settings)

    def run(self, batch: Batch) -> EncodedBlock:
        """Return the ids of a batch, and the positions where documents end within it.

        Raises:
            ValueError: If text is not valid UTF-8 (`errors="strict"`), or a byte is not in the
                vocabulary.
        """
        reading = ReadingRecord()
        texts = [self._checked_text(block, reading) for block in batch]
        ids, lengths = self._arrays(batch, texts)
        # The start of a file or row ends the previous document. TokenWriter handles documents that
        # ended with the previous batch.
        starting = np.array([block.starts_document for block in batch], bool)
        starts = np.unique((np.cumsum(lengths) - lengths)[starting])
        ends = starts[starts > 0]
        starts_document = len(ends) < len(starts)
        if self.end_id is not None:
            unmarked = ends[ids[ends - 1] != self.end_id]
            ids = np.insert(ids, unmarked, self.end_id)
            ends = ends + np.searchsorted(unmarked, ends, side="right")
        if self.separator_id is not None:
            ends = np.union1d(ends, np.flatnonzero(ids == self.separator_id) + 1)
        return EncodedBlock(ids, starts_document, ends, reading)

    def lists(self, batch: Batch) -> tuple[list[list[int]], ReadingRecord]:
        """Return the ids of each text of a batch as a list, without end ids.

        Usually, this does not need NumPy, which takes longer to import than to encode a few lines.
        """
        reading, encoder = ReadingRecord(), self.tokenizer.encoder
        texts = [self._checked_text(block, reading) for block in batch]
        if self.dropout is None and (self.errors != EXACT or all(map(is_valid_utf8, texts))):
            try:
                given = [text.decode() for text in texts]
                return encoder.encode_batch(given, encoder.all_added, 1), reading
            except AbsentByteError:
                raise _absent_byte(encoder, batch, texts) from None
        ids, lengths = self._arrays(batch, texts)
        return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])], reading

    def _arrays(self, batch: Batch, texts: list[bytes]) -> tuple[TokenArray, npt.NDArray[np.int64]]:
        """Return the concatenated ids of the texts of a batch, and the number of ids of each."""
        encoder = self.tokenizer.encoder
        try:
            if self.dropout is not None:
                places = [(block.document, block.start) for block in batch]
                return encoder.encode_dropped(texts, encoder.all_added, self.dropout, places)
            if self.errors == EXACT and not all(map(is_valid_utf8, texts)):
                return _encode_exactly(encoder, texts)
            return encoder.encode_documents(texts, encoder.all_added)
        except AbsentByteError:
            raise _absent_byte(encoder, batch, texts) from None

    def _checked_text(self, block: TextBlock, reading: ReadingRecord) -> bytes:
        """Return a text as valid UTF-8 or, with `errors="bytes"`, as arbitrary bytes."""
        if self.errors == EXACT and isinstance(block.text, bytes):
            reading.num_bytes += len(block.text)
            return block.text
        return reading.utf8_of_block(block, self.errors)

    def placed(self, blocks: Iterable[tuple[TextBlock, int]]) -> Iterator[tuple[TextBlock, int]]:
        """Yield blocks with their places in their documents, if there is dropout.

        Args:
            blocks: Pairs of a text, in order, and the number of bytes read so far.
        """
        if self.dropout is None:
            yield from blocks
            return
        document, start = self.dropout.first_document - 1, 0
        for block, bytes_read in blocks:
            if block.starts_document:
                document, start = document + 1, 0
            yield block._replace(document=document, start=start), bytes_read
            if isinstance(block.text, bytes):  # a row in memory is a single block
                start += len(ReadingRecord().utf8_of_block(block, self.errors))

    def batches(self, sources: Sequence[Source], before: int = 0) -> Iterator[Batch]:
        """Yield the texts of some files in batches, after `before` bytes of other files."""
        return batches_of(self.placed(_numbered(sources, self, before)), self.chunk_size)

    def executor(self, num_workers: int | None) -> Executor:
        """Return an executor that fits the encoder: threads if it releases the GIL."""
        return executor(
            "threads" if self.tokenizer.encoder.releases_gil else "processes", num_workers
        )


def _unpickled(
    tokenizer: Tokenizer,
    source: str | None,
    settings: tuple[str, int, bool, str | None, Dropout | None],
) -> EncodeJob:
    tokenizer.source = source
    return EncodeJob(tokenizer, *settings)


def encoded_blocks(
    job: EncodeJob,
    sources: Sequence[Source],
    num_workers: int,
    advance: Callable[[int], object] = lambda bytes_read: None,
) -> Generator[EncodedBlock, None, None]:
    """Yield the ids of files in order. Closing the generator stops the work.

    Args:
        job: Job that encodes the text.
        sources: Files in any format.
        num_workers: Number of threads or worker processes.
        advance: Callback invoked with the number of stored bytes read so far.
    """
    runner = job.executor(num_workers)
    # Dropout needs the place of each block in its document, so the text is read here, in order.
    encoder = job.tokenizer.encoder.file_encoder if job.dropout is None else None
    before = 0
    for is_local, group in itertools.groupby(
        sources, key=lambda source: encoder is not None and source.local_path is not None
    ):
        files = list(group)
        sizes = [source.num_bytes for source in files]
        if is_local and encoder is not None:
            yield from _encode_files(encoder, job, files, sizes, num_workers, before, advance)
        else:
            batches = job.batches(files, before)
            yield from runner.map_ordered(job, batches, lambda batch: advance(batch[-1].bytes_read))
        before += sum(sizes)
        advance(before)


def _encode_files(
    encoder: NativeEncoder,
    job: EncodeJob,
    sources: Sequence[Source],
    sizes: Sequence[int],
    num_workers: int,
    before: int,
    advance: Callable[[int], object],
) -> Iterator[EncodedBlock]:
    """Yield what `EncodeJob.run` would return for local plain text, which C++ reads in threads."""
    files = [source.path for source in sources]
    encoding = encoder.encode_files(
        files,
        sizes,
        # A huge chunk size would not fit a C++ integer.
        block_size=min(job.chunk_size, max(1, *sizes)),
        num_workers=num_workers,
        errors=job.errors,
        separator=job.separator_id,
        max_piece_bytes=sources[0].max_piece_bytes,
    )
    with contextlib.closing(encoding):
        last = None
        for file, ids, document_ends, num_bytes, replaced in encoding:
            before += num_bytes
            reading = ReadingRecord(num_bytes)
            reading.add_replaced(files[file], Replaced(*replaced))
            advance(before)
            yield EncodedBlock(ids, file != last, document_ends, reading)
            last = file


def _numbered(
    sources: Sequence[Source], job: EncodeJob, before: int
) -> Iterator[tuple[TextBlock, int]]:
    """Yield each text of some files, and the number of bytes of all files read so far."""
    encoder = job.tokenizer.encoder
    cuts = encoder.safe_cuts(encoder.all_added)
    for source in sources:
        for block in source.texts(cuts, job.chunk_size):
            yield block, before + block.bytes_read
        before += source.num_bytes


def batches_of(blocks: Iterable[tuple[TextBlock, int]], chunk_size: int) -> Iterator[Batch]:
    """Yield texts in batches of at least `chunk_size` bytes, except for the last batch.

    Args:
        blocks: Pairs of a text and the number of bytes read from storage so far.
        chunk_size: Number of bytes.
    """
    batch: Batch = []
    num_bytes = bytes_read = 0
    for block, bytes_read in blocks:
        batch.append(block)
        num_bytes += len(block.text)
        if num_bytes >= chunk_size:
            batch[-1] = block._replace(bytes_read=bytes_read)
            yield batch
            batch, num_bytes = [], 0
    if batch:
        batch[-1] = batch[-1]._replace(bytes_read=bytes_read)
        yield batch


def _encode_exactly(
    encoder: Encoder, texts: list[bytes]
) -> tuple[TokenArray, npt.NDArray[np.int64]]:
    """Return the concatenated ids of arbitrary bytes, and the number of ids of each text."""
    arrays = [encode_exactly(encoder, text, encoder.all_added) for text in texts]
    return np.concatenate(arrays), np.array([len(ids) for ids in arrays], np.int64)


def _absent_byte(encoder: Encoder, batch: Batch, texts: list[bytes]) -> InputError:
    """Return the error for the first byte in a file or row that is not in the vocabulary.

    The offset is not exact if earlier bytes were replaced with U+FFFD.
    """
    for block, text in zip(batch, texts, strict=True):
        for byte, offset in absent_bytes_in(encoder, text, encoder.all_added):
            where = f"{'at' if block.text == text else 'near'} offset"
            error = absent_byte_error(byte, f"{where} {(block.offset or 0) + offset:,}")
            return error.at(block.origin)
    raise AssertionError("the vocabulary contains every byte of the texts")
