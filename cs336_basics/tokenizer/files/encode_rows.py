"""encode_rows: encode rows from memory or a stream to a token file, in constant memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cs336_basics._support.errors import Argument, InputTypeError
from cs336_basics.execution.workers import resolve_num_workers
from cs336_basics.text.reading_record import ReadingRecord
from cs336_basics.text.rows import texts_of_rows
from cs336_basics.text.sources import TextBlock
from cs336_basics.text.utf8 import ENCODING_ERRORS, check_errors
from cs336_basics.tokenizer.dropout import Dropout
from cs336_basics.tokenizer.files.encode_files import check_destination, write_token_file
from cs336_basics.tokenizer.files.encode_job import EncodeJob, batches_of
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
    dropout: Dropout | None = None,
) -> dict[str, Any]:
    """Encode rows to a token file.

    Every row is a document, so no token spans two rows. Rows are read as needed, so `rows` may be a
    stream. The output file appears only when it is complete; after an error, an existing file is
    unchanged.

    Args:
        tokenizer: Tokenizer that encodes the text.
        rows: Texts (str or UTF-8 bytes) or, with `field`, dicts, a Hugging Face dataset, or an
            Arrow table or stream. See `texts_of_rows`.
        destination: FILE.npy.
        field: Field or column that contains the text.
        errors: How to handle invalid UTF-8 and lone surrogates: `"replace"` replaces them with
            U+FFFD, `"strict"` raises ValueError, and `"bytes"` encodes bytes losslessly.
        num_workers, overwrite, document_starts, end_of_document, dropout: See `encode_file`.

    Returns:
        Metadata of the file; see `encode_file`. Its `source` is the type of `rows`.

    Raises:
        TypeError: If `rows` is not an iterable of rows, or a row is not a text.
        ValueError: If a row does not have the field, is not UTF-8 (`"strict"`), or has a byte that
            is not in the vocabulary (the message includes the index of the row); if there are no
            tokens; or if the destination or special token is invalid.

    Example:
        >>> from cs336_basics import Tokenizer
        >>> from cs336_basics.tokenizer import encode_rows
        >>> tokenizer = Tokenizer.from_directory("tokenizers/stories")
        >>> rows = [{"text": "Once upon a time"}, {"text": "The end"}]
        >>> encode_rows(tokenizer, rows, "rows.npy", field="text")["num_bytes"]
        23
    """
    check_is_tokenizer(tokenizer)
    check_errors(errors, ENCODING_ERRORS)
    destination = Path(destination)
    check_destination(destination, (), overwrite)
    texts = texts_of_rows(rows, field)
    num_workers = resolve_num_workers(num_workers)
    job = EncodeJob(
        tokenizer,
        errors,
        document_starts=document_starts,
        end_of_document=end_of_document,
        dropout=dropout,
    )
    batches = batches_of(job.placed((block, 0) for block in _blocks(texts)), job.chunk_size)
    reading = ReadingRecord()
    metadata = write_token_file(
        job,
        job.executor(num_workers).map_ordered(job, batches),
        destination,
        source=f"rows of type {type(rows).__qualname__}",
        reading=reading,
    )
    reading.warn()
    return metadata


def _blocks(texts: Iterable[Any]) -> Iterator[TextBlock]:
    """Yield each text as a document."""
    for index, text in enumerate(texts):
        if not isinstance(text, (str, bytes)):
            raise InputTypeError(
                f"must be str or bytes, got {type(text).__name__}",
                place=f"row {index:,}",
                remedy=("pass ", Argument("field", "text")) if isinstance(text, Mapping) else "",
            )
        yield TextBlock(text, True, "", "row {:,}", index)
