"""encode_file: a corpus to a token file, in constant memory and atomically.

`encoded_blocks.py` makes the ids, `token_writer.py` writes them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import cs336_basics
from cs336_basics._support.files import check_is_no_input, printable_path
from cs336_basics._support.journal import complete_change
from cs336_basics._support.progress import byte_bar, title_of
from cs336_basics._support.temporary_files import replaced_file
from cs336_basics.pretokenization.counting.parallel import resolve_num_workers
from cs336_basics.pretokenization.reading.chunking import check_chunk_size
from cs336_basics.pretokenization.reading.corpus import Corpus, PathsLike
from cs336_basics.pretokenization.reading.text_changes import TextChanges
from cs336_basics.tokenizer.files.encoded_blocks import (
    DEFAULT_CHUNK_SIZE,
    EncodingTask,
    encoded_blocks,
)
from cs336_basics.tokenizer.files.token_files import metadata_path_of, starts_path_of
from cs336_basics.tokenizer.files.token_writer import EncodedBlock, open_token_writer
from cs336_basics.tokenizer.ids import token_dtype
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer


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
) -> dict[str, Any]:
    """Encode files of text to a token file, in constant memory whatever their size.

    The ids are those of the whole text, the same for every number of workers and every chunk size.
    No token spans two files or rows. The output files appear under their names when they are
    complete; after an error there is none, and the files that they would replace are kept.

    Args:
        tokenizer: encodes the text.
        source: a Corpus; or a file, a glob such as `"data/*.txt"`, or several of both, for
            `Corpus(source)`. Text is read as bytes: line ends and a byte order mark are text.
        destination: FILE.npy; FILE.json is written next to it.
        num_workers: threads, or worker processes where the encoder does not release the GIL; None =
            one for each core. No more are started than there are chunks.
        progress: show a progress bar on a terminal.
        overwrite: replace files that exist.
        chunk_size: bytes of text encoded at a time.
        document_starts: also write FILE.starts.npy, for `load_document_starts`. A document begins
            with every file of text, with every row, and after every `end_of_document` in the text
            (`<|endoftext|>`, if there is none and the tokenizer has it). One without tokens does
            not count.
        end_of_document: a special token to append to every row and every file of text that has
            tokens and does not end with it already.

    Returns:
        the content of FILE.json: tokenizer_hash, vocab_size, dtype (uint16, or uint32 where ids
        reach 65,536), num_tokens, num_bytes (of the text, uncompressed), bytes_per_token, source (a
        path, or a list of several), library_version; with `document_starts` also num_documents and
        document_separator (a special token or None); with `end_of_document` also that token.

    Raises:
        FileNotFoundError: there is no such source.
        FileExistsError: a destination exists, and `overwrite` is false.
        ValueError: a bad source, see Corpus; a source is damaged, became shorter, lacks the field
            or column, or is (`errors="strict"`) not UTF-8, with the offset; the destination does
            not end in .npy, or is a source; `end_of_document` is not a special token; the
            vocabulary lacks a byte of the text.
        OSError: a source cannot be read, or the destination cannot be written (the disk is full).
        ImportError: a library for the format is missing, named with the command that installs it.
        RuntimeError: a worker process died.

    Warns:
        UserWarning: bytes that are not UTF-8 were read as U+FFFD; or the pattern does not match all
            of the text, and decoding does not give it back. Both with the share.
    """
    check_is_tokenizer(tokenizer)
    corpus = Corpus.of(source)
    destination = Path(destination)
    check_destination(destination, corpus.files, overwrite, document_starts)
    chunk_size = check_chunk_size(chunk_size)
    # Errors should be raised before the work begins: this raises those of Parquet files.
    corpus.by_plainness()[1].chunks()
    num_workers = resolve_num_workers(num_workers)
    task = EncodingTask.of(
        tokenizer, corpus.errors, chunk_size, document_starts=document_starts,
        end_of_document=end_of_document,
    )  # fmt: skip
    names = [printable_path(file) for file in corpus.files]
    changes = TextChanges()
    with byte_bar(progress, corpus.num_bytes, f"encoding {title_of(corpus.files)}") as bar:
        return write_token_file(
            tokenizer,
            encoded_blocks(tokenizer, corpus, task, num_workers, changes),
            destination,
            task,
            source=names[0] if len(names) == 1 else names,
            changes=changes,
            advance=lambda bytes_read: bar.update(bytes_read - bar.n),
        )


def write_token_file(
    tokenizer: Tokenizer,
    blocks: Generator[EncodedBlock, None, None],
    destination: Path,
    task: EncodingTask,
    *,
    source: Any,
    changes: TextChanges,
    advance: Callable[[int], object] = lambda bytes_read: None,
) -> dict[str, Any]:
    """Write ids to a token file, all of its files or none; return its metadata.

    Args:
        tokenizer: the one that made the ids.
        blocks: the ids; closed at the end.
        destination: FILE.npy.
        task: how they were encoded.
        source: what they were made from, for FILE.json.
        changes: what reading changed, added to until the last block; a warning reports it.
        advance: is called with `bytes_read` of each block.

    Raises:
        ValueError: there are no ids.
        OSError: the destination cannot be written.
    """
    dtype = token_dtype(tokenizer.vocab_size)
    num_bytes = 0
    with open_token_writer(
        destination, dtype, document_starts=task.document_starts, end_id=task.end_id
    ) as writer:
        with contextlib.closing(blocks):
            for block in blocks:
                writer.write(block)
                num_bytes += block.num_bytes
                if block.changes is not None:
                    changes.add(block.changes)
                advance(block.bytes_read)
        num_tokens, num_documents = writer.finish()
        if num_tokens == 0:
            name = source if isinstance(source, str) else f"{len(source):,} files"
            reason = (
                "the split pattern matches nothing in it" if num_bytes else "there is no text in it"
            )
            raise ValueError(f"{os.path.basename(name)} gave no tokens: {reason}")
        metadata = {
            "tokenizer_hash": tokenizer.hash(),
            "vocab_size": tokenizer.vocab_size,
            "dtype": dtype.name,
            "num_tokens": num_tokens,
            "num_bytes": num_bytes,
            "bytes_per_token": num_bytes / num_tokens,
            "source": source,
            "library_version": cs336_basics.__version__,
        }
        if task.document_starts:
            metadata["num_documents"] = num_documents
            metadata["document_separator"] = task.separator
        if task.end_of_document is not None:
            metadata["end_of_document"] = task.end_of_document
        writer.write_metadata(metadata)
    changes.num_bytes = num_bytes
    changes.warn(tokenizer.pattern, "encoded")
    return metadata


def check_destination(
    destination: Path, sources: Iterable[str], overwrite: bool, document_starts: bool
) -> None:
    """Check that FILE.npy and the files next to it may be written."""
    if destination.suffix != ".npy":
        raise ValueError(f"{destination} does not end in .npy: name a NumPy array, FILE.npy")
    paths = [destination, metadata_path_of(destination)]
    if document_starts:
        paths.append(starts_path_of(destination))
    if destination.parent.is_dir():
        complete_change(destination.parent)  # of a run that was killed: its files count too
    sources = list(sources)
    for path in paths:
        replaced_file(path)  # raises where it cannot be replaced
        if not path.exists():
            continue
        check_is_no_input(path, sources)
        if not overwrite:
            raise FileExistsError(
                f"{path} exists: choose another name, or replace it with overwrite=True "
                "(--overwrite)"
            )
