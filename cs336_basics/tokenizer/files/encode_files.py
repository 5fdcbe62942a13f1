"""encode_file: a corpus to a token file, in constant memory and atomically.

`encoded_blocks.py` makes the ids, `token_writer.py` writes them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.files import check_is_no_input, printable_path
from cs336_basics._support.memory import holding
from cs336_basics._support.progress import byte_bar, title_of
from cs336_basics.pretokenization.counting.parallel import resolve_num_workers
from cs336_basics.pretokenization.reading.corpus import Corpus, PathsLike
from cs336_basics.pretokenization.reading.text_changes import TextChanges
from cs336_basics.tokenizer.files.encoded_blocks import (
    DEFAULT_CHUNK_SIZE,
    EncodingTask,
    encoded_blocks,
)
from cs336_basics.tokenizer.files.token_writer import EncodedBlock, open_token_writer
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
    No token spans two files or rows. The output file appears under its name when it is complete;
    after an error there is none, and a file that it would replace is kept.

    Args:
        tokenizer: encodes the text.
        source: a Corpus; or a file, a glob such as `"data/*.txt"`, or several of both, for
            `Corpus(source)`. Text is read as bytes: line ends and a byte order mark are text.
        destination: FILE.npy; for its format see `token_files.py`.
        num_workers: threads, or worker processes where the encoder does not release the GIL; None =
            one for each core. No more are started than there are chunks.
        progress: show a progress bar on a terminal.
        overwrite: replace a file that exists.
        chunk_size: bytes of text encoded at a time.
        document_starts: also write where documents begin, for `load_document_starts`. That is
            with every file of text, with every row, and after every `end_of_document` in the text
            (`<|endoftext|>`, if there is none and the tokenizer has it). A document without tokens
            does not count.
        end_of_document: a special token to append to every row and every file of text that has
            tokens and does not end with it already.

    Returns:
        the metadata of the file: tokenizer (its `source`), tokenizer_hash, vocab_size, dtype
        (uint16, or uint32 where ids reach 65,536), num_tokens, num_bytes (of the text,
        uncompressed), bytes_per_token, source (a path, or a list of several), library_version;
        with `document_starts` also num_documents and document_separator (a special token or
        None); with `end_of_document` also that token.

    Raises:
        FileNotFoundError: there is no such source.
        FileExistsError: the destination exists, and `overwrite` is false.
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
    check_destination(destination, corpus.files, overwrite)
    chunk_size = checked_integer("chunk_size", chunk_size, 1, note=" byte")
    # Errors should be raised before the work begins: this raises those of Parquet files.
    corpus.by_plainness()[1].chunks()
    num_workers = resolve_num_workers(num_workers)
    task = EncodingTask.of(
        tokenizer, corpus.errors, chunk_size, document_starts=document_starts,
        end_of_document=end_of_document,
    )  # fmt: skip
    names = [printable_path(file) for file in corpus.files]
    changes = TextChanges()
    with (
        holding(lambda: f"ids of chunks of {chunk_size:,} bytes of {title_of(corpus.files)}"),
        byte_bar(progress, corpus.num_bytes, f"encoding {title_of(corpus.files)}") as bar,
    ):
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
    """Write ids to a token file; return its metadata.

    Args:
        tokenizer: the one that made the ids.
        blocks: the ids; closed at the end.
        destination: FILE.npy.
        task: how they were encoded.
        source: what they were made from, for the metadata.
        changes: what reading changed, added to until the last block; a warning reports it.
        advance: is called with `bytes_read` of each block.

    Raises:
        ValueError: there are no ids.
        OSError: the destination cannot be written.
    """
    num_bytes = 0
    with open_token_writer(
        destination, tokenizer, document_starts=task.document_starts, end_id=task.end_id
    ) as writer:
        with contextlib.closing(blocks):
            for block in blocks:
                writer.write(block)
                num_bytes += block.num_bytes
                if block.changes is not None:
                    changes.add(block.changes)
                advance(block.bytes_read)
        writer.end_document()
        if writer.num_tokens == 0:
            name = source if isinstance(source, str) else f"{len(source):,} files"
            reason = (
                "the split pattern matches nothing in it" if num_bytes else "there is no text in it"
            )
            raise ValueError(f"{os.path.basename(name)} gave no tokens: {reason}")
        metadata = {"num_bytes": num_bytes, "source": source}
        if task.document_starts:
            metadata["document_separator"] = task.separator
        if task.end_of_document is not None:
            metadata["end_of_document"] = task.end_of_document
        metadata = writer.finish(metadata)
    changes.num_bytes = num_bytes
    changes.warn(tokenizer.pattern, "encoded")
    return metadata


def check_destination(destination: Path, sources: Iterable[str], overwrite: bool) -> None:
    """Check that a token file may be written, before anything is encoded."""
    if destination.suffix != ".npy":
        raise ValueError(f"{destination} does not end in .npy: name a NumPy array, FILE.npy")
    check_is_no_input(destination, sources)
    if destination.exists() and not overwrite:
        raise FileExistsError(
            f"{destination} exists: choose another name, or replace it with overwrite=True "
            "(--overwrite)"
        )
