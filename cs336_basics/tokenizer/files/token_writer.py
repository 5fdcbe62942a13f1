"""Write token files atomically: ids, document starts and metadata in one file."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import cs336_basics
from cs336_basics._support.files import atomic_writer
from cs336_basics._support.lazy import np, npt
from cs336_basics.text.reading_record import ReadingRecord
from cs336_basics.tokenizer.files.token_files import (
    FOOTER,
    MAGIC,
    STARTS_BYTES,
    STARTS_DTYPE,
    starts_offset,
)
from cs336_basics.tokenizer.ids import TokenArray, token_dtype
from cs336_basics.tokenizer.tokenizer import Tokenizer

WRITE_BACK_SIZE = 2 << 20
"""Number of bytes to write before asking the system to start flushing them to disk."""

_BLOCK = 1 << 20

_STARTS_IN_MEMORY = 1 << 20
"""Maximum size, in bytes, of the document starts in memory. If they are larger, they are written to
a temporary file."""

Positions: TypeAlias = "npt.NDArray[np.int64]"


@dataclass(frozen=True)
class EncodedBlock:
    """The ids of a block of text or of several small texts.

    Attributes:
        ids: Ids, shape (n,), valid until the next block is requested.
        starts_document: Whether the first id starts a file or row.
        document_ends: Positions from 1 to n where documents end, in ascending order.
        reading: Size of the text, and the sequences replaced in it.
    """

    ids: TokenArray
    starts_document: bool
    document_ends: Positions
    reading: ReadingRecord


@contextlib.contextmanager
def open_token_writer(
    destination: Path, tokenizer: Tokenizer, *, document_starts: bool, end_id: int | None
) -> Iterator[TokenWriter]:
    """Open FILE.npy for writing.

    The file appears when the `with` block ends without an exception. Call `TokenWriter.finish` at
    the end of the block.

    Args:
        destination: FILE.npy.
        tokenizer: Tokenizer that produces the ids.
        document_starts: Whether to write the positions where documents start.
        end_id: Id that every document must end with, or None if documents may end with any id.
    """
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(atomic_writer(destination, "w+b"))
        starts = None
        if document_starts:
            starts = stack.enter_context(
                tempfile.SpooledTemporaryFile(_STARTS_IN_MEMORY, dir=str(destination.parent))
            )
        yield TokenWriter(file, starts, tokenizer, end_id)


class TokenWriter:
    """Writes ids, adds missing end ids to documents, and records where documents start.

    Args:
        file: Token file.
        starts: Temporary file for document starts, or None if they are not written.
        tokenizer, end_id: See `open_token_writer`.

    Attributes:
        num_tokens: Number of ids written so far.
    """

    def __init__(
        self,
        file: IO[bytes],
        starts: IO[bytes] | None,
        tokenizer: Tokenizer,
        end_id: int | None,
    ) -> None:
        self._file = file
        self._starts = starts
        self._tokenizer = tokenizer
        self._dtype = token_dtype(tokenizer.vocab_size)
        self._end_id = end_id
        self._last: int | None = None  # the last id of this file or row
        self._ended = True  # the next id starts a document
        self._unsent = 0  # bytes written since the last request to flush
        self.num_tokens = 0
        self._write_header()
        self._header_bytes = file.tell()

    def write(self, block: EncodedBlock) -> None:
        """Append a block."""
        if block.starts_document:
            self.end_document()
        self._write_ids(block.ids, block.document_ends)

    def end_document(self) -> None:
        """End a file or row, and append the end id if it is missing."""
        if self._end_id is not None and self._last not in (None, self._end_id):
            self._write_ids(np.array([self._end_id], self._dtype), np.empty(0, np.int64))
        self._last = None
        self._ended = True

    def ids_sha256(self) -> str:
        """Return the SHA-256 of the ids written so far, by reading them; see `ids_are_intact`."""
        start, end = self._header_bytes, self._file.tell()
        self._file.seek(start)
        digest = hashlib.sha256()
        while chunk := self._file.read(min(_BLOCK, end - self._file.tell())):
            digest.update(chunk)
        self._file.seek(end)
        return digest.hexdigest()

    def finish(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Write the document starts and metadata after the ids, and return the complete metadata.

        Call `end_document` first.

        Args:
            metadata: Additional metadata, which must include num_bytes, the size of the text.
        """
        metadata = metadata | {
            "tokenizer": self._tokenizer.source,
            "tokenizer_hash": self._tokenizer.hash(),
            "vocab_size": self._tokenizer.vocab_size,
            "dtype": self._dtype.name,
            "num_tokens": self.num_tokens,
            "bytes_per_token": metadata["num_bytes"] / max(self.num_tokens, 1),
            "library_version": cs336_basics.__version__,
        }
        array_end = self._file.tell()
        self._file.write(bytes(starts_offset(array_end) - array_end))
        if self._starts is not None:
            metadata["num_documents"] = self._starts.tell() // STARTS_BYTES
            self._starts.seek(0)
            shutil.copyfileobj(self._starts, self._file)
        content = json.dumps(metadata, ensure_ascii=False).encode()
        self._file.write(content + FOOTER.pack(array_end, len(content), MAGIC))
        self._file.seek(0)
        self._write_header()
        return metadata

    def _write_ids(self, ids: TokenArray, document_ends: Positions) -> None:
        if not len(ids):
            return
        if self._starts is not None:
            first = [0] if self._ended else []
            inside = document_ends[document_ends < len(ids)]
            starts = self.num_tokens + np.concatenate([first, inside])
            self._starts.write(starts.astype(STARTS_DTYPE).tobytes())
            self._ended = len(inside) < len(document_ends)
        self._file.write(ids.data)
        self.num_tokens += len(ids)
        self._last = int(ids[-1])
        self._start_write_back(ids.nbytes)

    def _start_write_back(self, num_bytes: int) -> None:
        """Start writing to disk while more text is encoded, so that the final fsync is short."""
        # On Linux, this advice tells the kernel to start writing dirty pages to disk. Other systems
        # ignore it or do something similar.
        self._unsent += num_bytes
        if self._unsent >= WRITE_BACK_SIZE and hasattr(os, "posix_fadvise"):
            offset = self._file.tell() - self._unsent
            with contextlib.suppress(OSError):  # the file system may reject the advice
                os.posix_fadvise(self._file.fileno(), offset, self._unsent, os.POSIX_FADV_DONTNEED)
            self._unsent = 0

    def _write_header(self) -> None:
        """Write the NumPy header, padded so that its size does not depend on the number of ids."""
        header = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self.num_tokens,),
        }
        np.lib.format.write_array_header_1_0(self._file, header)
