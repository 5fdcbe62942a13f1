"""encode_file: encode a corpus to a token file, in constant memory and atomically.

`encode_job.py` produces the ids; `token_writer.py` writes them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cs336_basics._support.arguments import checked_bool, checked_integer
from cs336_basics._support.errors import InputError, OutputExistsError
from cs336_basics._support.files import check_is_no_input
from cs336_basics._support.paths import printable_path
from cs336_basics._support.progress import byte_bar, title_of
from cs336_basics.execution.workers import resolve_num_workers
from cs336_basics.text.corpus import Corpus
from cs336_basics.text.paths import PathsLike
from cs336_basics.text.reading_record import ReadingRecord
from cs336_basics.tokenizer.dropout import Dropout
from cs336_basics.tokenizer.files.encode_job import (
    DEFAULT_CHUNK_SIZE,
    EncodeJob,
    encoded_blocks,
)
from cs336_basics.tokenizer.files.token_writer import EncodedBlock, open_token_writer
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer


class NoTokensError(InputError):
    """Raised if a text has no tokens."""


def encode_file(
    tokenizer: Tokenizer,
    source: Corpus | PathsLike,
    destination: str | os.PathLike[str],
    *,
    num_workers: int | None = None,
    progress: bool = False,
    overwrite: bool = False,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    document_starts: bool = False,
    end_of_document: str | None = None,
    dropout: Dropout | None = None,
) -> dict[str, Any]:
    """Encode a corpus to a token file, in constant memory.

    The ids do not depend on the number of workers or the chunk size. No token spans two files or
    rows. The output file appears only when it is complete; after an error, an existing file is
    unchanged.

    Args:
        tokenizer: Tokenizer that encodes the text.
        source: A Corpus, or a file, a glob such as `"data/*.txt"`, or a list of files and globs for
            `Corpus(source)`. Line endings and byte order marks are kept.
        destination: FILE.npy; see `token_files.py` for the format.
        num_workers: Maximum number of threads, or of worker processes if the encoder does not
            release the GIL. Defaults to all cores.
        progress: Whether to show a progress bar on a terminal.
        overwrite: Whether to replace an existing file.
        chunk_size: Number of bytes of text to encode at a time.
        document_starts: Whether to write the positions where documents start, for
            `load_document_starts`. A document starts at the beginning of every text file and every
            row, and after every `end_of_document` in the text (by default `<|endoftext|>`, if the
            tokenizer has this token). Documents without tokens are left out.
        end_of_document: Special token to append to every row and every text file that has tokens
            and does not end with this token.
        dropout: Leaves out merges at random (BPE-dropout); see `Dropout`. Each row and each text
            file is a document.

    Returns:
        Metadata of the file: tokenizer (its `source`), tokenizer_hash, vocab_size, dtype (uint16,
        or uint32 if the vocabulary has ids of 65,536 or more), num_tokens, num_bytes (of the
        uncompressed text), bytes_per_token, source (a path or a list of paths) and library_version;
        with `document_starts`, also num_documents and document_separator (a special token or None);
        with `end_of_document`, also end_of_document (that token); with `dropout`, also dropout
        (its settings).

    Raises:
        FileNotFoundError: If the source does not exist.
        FileExistsError: If the destination exists and `overwrite` is false.
        TypeError: If `overwrite`, `document_starts` or `progress` is not a bool.
        ValueError: If the source is invalid (see Corpus), is damaged, shrinks while it is read,
            does not have the field or column, or is not UTF-8 (`errors="strict"`; the message
            includes the offset); if the destination does not end in .npy or is a source; if
            `end_of_document` is not a special token; if there is dropout with `errors="bytes"`; or
            if a byte of the text is not in the vocabulary.
        OSError: If a source cannot be read, or the destination cannot be written.
        ImportError: If a library for the format is missing. The message includes the install
            command.
        RuntimeError: If a worker process dies.

    Warns:
        UserWarning: If invalid UTF-8 was replaced with U+FFFD. The warning includes the share of
            bytes.

    Example:
        >>> from cs336_basics import Tokenizer
        >>> from cs336_basics.tokenizer import encode_file, load_token_file
        >>> tokenizer = Tokenizer.from_directory("tokenizers/stories")
        >>> metadata = encode_file(tokenizer, "stories.txt", "encoded.npy")
        >>> ids = load_token_file("encoded.npy", tokenizer_hash=tokenizer.hash())
        >>> len(ids) == metadata["num_tokens"], str(ids.dtype)
        (True, 'uint16')
    """
    check_is_tokenizer(tokenizer)
    corpus = Corpus.of(source)
    destination = Path(destination)
    check_destination(destination, corpus.files, overwrite)
    chunk_size = checked_integer("chunk_size", chunk_size, 1, note=" byte")
    num_workers = resolve_num_workers(num_workers)
    job = EncodeJob(tokenizer, corpus.errors, chunk_size, document_starts, end_of_document, dropout)
    names = [printable_path(file) for file in corpus.files]
    reading = ReadingRecord()
    with byte_bar(progress, corpus.num_bytes, f"encoding {title_of(corpus.files)}") as bar:
        metadata = write_token_file(
            job,
            encoded_blocks(
                job, corpus.sources, num_workers, lambda bytes_read: bar.update(bytes_read - bar.n)
            ),
            destination,
            source=names[0] if len(names) == 1 else names,
            reading=reading,
        )
    reading.warn()
    return metadata


def write_token_file(
    job: EncodeJob,
    blocks: Generator[EncodedBlock, None, None],
    destination: Path,
    *,
    source: Any,
    reading: ReadingRecord,
    record: Callable[[], Mapping[str, Any]] = dict,
    with_hash: bool = False,
) -> dict[str, Any]:
    """Write ids to a token file and return its metadata.

    Args:
        job: Job that encoded the ids.
        blocks: Generator of the ids. It is closed at the end.
        destination: FILE.npy.
        source: Source of the text, for the metadata.
        reading: Record to which the record of each block is added.
        record: Callback that returns further metadata, invoked after the last block.
        with_hash: Whether to add ids_sha256, the hash of the bytes of the ids, to the metadata.

    Raises:
        NoTokensError: If there are no ids.
        OSError: If the destination cannot be written.
    """
    with open_token_writer(
        destination, job.tokenizer, document_starts=job.document_starts, end_id=job.end_id
    ) as writer:
        with contextlib.closing(blocks):
            for block in blocks:
                writer.write(block)
                reading.add(block.reading)
        writer.end_document()
        if writer.num_tokens == 0:
            raise no_tokens(source)
        metadata = {"num_bytes": reading.num_bytes, "source": source, **record()}
        if job.document_starts:
            metadata["document_separator"] = job.separator
        if job.end_of_document is not None:
            metadata["end_of_document"] = job.end_of_document
        if job.dropout is not None:
            metadata["dropout"] = dataclasses.asdict(job.dropout)
        if with_hash:
            metadata["ids_sha256"] = writer.ids_sha256()
        return writer.finish(metadata)


def no_tokens(source: str | Sequence[str]) -> NoTokensError:
    """Return an error for one or more texts that have no tokens."""
    name = source if isinstance(source, str) else f"{len(source):,} files"
    problem = "no tokens were encoded because there is no text"
    return NoTokensError(problem, place=os.path.basename(name))


def check_destination(destination: Path, sources: Iterable[str], overwrite: bool) -> None:
    """Check that a token file may be written to `destination`."""
    if destination.suffix != ".npy":
        raise InputError(f"must end in .npy, got {destination}", argument="destination")
    check_is_no_input(destination, sources)
    if not checked_bool("overwrite", overwrite) and destination.exists():
        raise OutputExistsError(f"{destination} exists")
