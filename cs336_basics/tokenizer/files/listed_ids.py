"""listed_documents: encode a corpus to lists of ids, document by document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from cs336_basics._support.paths import printable_path
from cs336_basics._support.progress import byte_bar, title_of
from cs336_basics.execution.executors import executor
from cs336_basics.execution.workers import resolve_num_workers
from cs336_basics.text.corpus import Corpus
from cs336_basics.text.reading_record import ReadingRecord
from cs336_basics.tokenizer.dropout import Dropout
from cs336_basics.tokenizer.files.encode_files import no_tokens
from cs336_basics.tokenizer.files.encode_job import DEFAULT_CHUNK_SIZE, Batch, EncodeJob
from cs336_basics.tokenizer.tokenizer import Tokenizer


class ListedBatch(NamedTuple):
    """The ids of each text of a batch, and whether it starts a file or row."""

    ids: list[list[int]]
    starts_document: list[bool]
    reading: ReadingRecord


class ListJob:
    """Encodes batches of text to lists, wherever they are encoded."""

    def __init__(self, job: EncodeJob) -> None:
        self._job = job

    def run(self, batch: Batch) -> ListedBatch:
        """Return the ids of a batch; see `EncodeJob.lists`."""
        ids, reading = self._job.lists(batch)
        return ListedBatch(ids, [block.starts_document for block in batch], reading)


def listed_documents(
    tokenizer: Tokenizer,
    corpus: Corpus,
    *,
    num_workers: int | None = None,
    progress: bool = False,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    end_of_document: str | None = None,
    dropout: Dropout | None = None,
) -> Iterator[tuple[list[int], bool]]:
    """Yield the ids that `encode_file` would write, and whether a document ends after them.

    Args:
        tokenizer, num_workers, progress, chunk_size, end_of_document, dropout: See `encode_file`.
        corpus: Text to encode.

    Yields:
        A part of a document, and whether it is the last one. If it is, the part may be empty.
        Documents without ids are left out.

    Raises, in addition to the errors of `encode_file`:
        NoTokensError: At the end, if there are no ids.
    """
    job = EncodeJob(
        tokenizer,
        corpus.errors,
        chunk_size,
        document_starts=True,
        end_of_document=end_of_document,
        dropout=dropout,
    )
    workers = resolve_num_workers(num_workers)
    # Starting threads or processes takes longer than encoding a few lines.
    is_small = corpus.num_bytes <= job.chunk_size
    runner = executor("serial") if is_small else job.executor(workers)
    reading = ReadingRecord()
    is_empty = True
    with byte_bar(progress, corpus.num_bytes, f"encoding {title_of(corpus.files)}") as bar:

        def texts() -> Iterator[tuple[bool, list[int]]]:
            for batch in runner.map_ordered(
                ListJob(job),
                job.batches(corpus.sources),
                lambda batch: bar.update(batch[-1].bytes_read - bar.n),
            ):
                reading.add(batch.reading)
                yield from zip(batch.starts_document, batch.ids, strict=True)

        for part in _documents(texts(), job):
            is_empty = False
            yield part
    if is_empty:
        names = [printable_path(file) for file in corpus.files]
        raise no_tokens(names[0] if len(names) == 1 else names)
    reading.warn()


def _documents(
    texts: Iterable[tuple[bool, list[int]]], job: EncodeJob
) -> Iterator[tuple[list[int], bool]]:
    """Divide texts, each with whether it starts a file or row, into documents."""
    last: int | None = None  # the last id of the file or row
    is_open = False  # whether a document has begun
    separator = job.separator_id
    nothing: list[int] = []
    for starts_document, ids in chain(texts, [(True, nothing)]):
        if starts_document:
            if job.end_id is not None and last not in (None, job.end_id):
                yield [job.end_id], True
            elif is_open:
                yield [], True
            last, is_open = None, False
        start = 0
        ends = [i for i, one in enumerate(ids, 1) if one == separator] if separator in ids else []
        for stop in ends:
            yield ids[start:stop], True
            start, is_open = stop, False
        if start < len(ids):
            yield ids[start:], False
            is_open = True
        if ids:
            last = ids[-1]
