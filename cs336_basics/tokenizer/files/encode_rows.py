"""encode_rows: rows in memory, or a stream of them, to a token file, in constant memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cs336_basics.pretokenization.counting.parallel import resolve_num_workers
from cs336_basics.pretokenization.reading.corpus import ENCODING_ERRORS, check_errors
from cs336_basics.pretokenization.reading.readers import TextBlock
from cs336_basics.pretokenization.reading.rows import texts_of_rows
from cs336_basics.pretokenization.reading.text_changes import TextChanges
from cs336_basics.tokenizer.files.encode_files import check_destination, write_token_file
from cs336_basics.tokenizer.files.encoded_blocks import (
    DEFAULT_CHUNK_SIZE,
    EncodingTask,
    TextBatch,
    encode_batches,
)
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer


def encode_rows(
    tokenizer: Tokenizer,
    rows: Any,
    destination: str | os.PathLike[str],
    *,
    field: str | None = None,
    errors: str = "replace",
    num_workers: int | None = None,
    overwrite: bool = False,
    document_starts: bool = False,
    end_of_document: str | None = None,
) -> dict[str, Any]:
    """Encode rows to a token file, as `encode_file` does files of rows.

    Every row is a document: no token spans two of them. The rows are read as they are needed, so
    they may be a stream. The output file appears under its name when it is complete; after an error
    there is none, and a file that it would replace is kept.

    Args:
        tokenizer: encodes the text.
        rows: texts, str or UTF-8 bytes; or, with `field`, dicts, a dataset of Hugging Face's
            library, an Arrow table or stream; see `texts_of_rows`.
        destination: FILE.npy.
        field: the field or column of the rows that has the text.
        errors: `"replace"` reads bytes that are not UTF-8, and lone surrogates, as U+FFFD;
            `"strict"` refuses them; `"bytes"` keeps bytes exactly.
        num_workers, overwrite, document_starts, end_of_document: as for `encode_file`.

    Returns:
        the metadata of the file, see `encode_file`; source is the type of `rows`.

    Raises:
        TypeError: `rows` are not rows, or one is not a text.
        ValueError: rows lack the field, or none gives a token; (`"strict"`) a row is not UTF-8;
            the vocabulary lacks a byte of the text; messages name the row. A bad destination or
            special token.
        FileExistsError, OSError, RuntimeError: as `encode_file`.

    Warns:
        UserWarning: as `encode_file`.
    """
    check_is_tokenizer(tokenizer)
    check_errors(errors, ENCODING_ERRORS)
    destination = Path(destination)
    check_destination(destination, (), overwrite)
    texts = texts_of_rows(rows, field)
    num_workers = resolve_num_workers(num_workers)
    task = EncodingTask.of(
        tokenizer,
        errors,
        DEFAULT_CHUNK_SIZE,
        document_starts=document_starts,
        end_of_document=end_of_document,
    )
    return write_token_file(
        tokenizer,
        encode_batches(tokenizer, _batches(texts, task.chunk_size), task, num_workers),
        destination,
        task,
        source=f"rows of type {type(rows).__qualname__}",
        changes=TextChanges(),
    )


def _batches(texts: Iterable[Any], chunk_size: int) -> Iterator[TextBatch]:
    """Yield texts in batches of about `chunk_size` bytes."""
    blocks: list[TextBlock] = []
    size = num_bytes = 0
    for index, text in enumerate(texts):
        if not isinstance(text, (str, bytes)):
            hint = ": pass field=, such as field='text'" if isinstance(text, Mapping) else ""
            raise TypeError(
                f"row {index:,} is of type {type(text).__name__}, not str or bytes{hint}"
            )
        blocks.append(TextBlock(text, True, "", f"row {index:,}", None, 0))
        size += len(text)
        if size >= chunk_size:
            num_bytes += size
            yield TextBatch(blocks, num_bytes)
            blocks, size = [], 0
    if blocks:
        yield TextBatch(blocks, num_bytes + size)
