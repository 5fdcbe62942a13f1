"""Writes token files: ids, document starts and metadata, all of them or none.

They change together, see `journal.py`: after a crash there is the old token file or the new one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from cs336_basics._support.disk import naming, sync_open_file
from cs336_basics._support.files import dump_json
from cs336_basics._support.journal import changing_together
from cs336_basics.pretokenization.reading.text_changes import TextChanges
from cs336_basics.tokenizer.files.token_files import load_metadata, metadata_path_of, starts_path_of
from cs336_basics.tokenizer.ids import TokenArray

WRITE_BACK_SIZE = 2 << 20
"""Bytes that are written before the system is asked to start writing them to the disk."""

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class EncodedBlock:
    """The ids of a block of text, or of several small texts.

    Attributes:
        ids: of shape (n,); valid until the next block is requested.
        starts_document: a file or row starts with the first id.
        document_ends: positions in 1..n where a document ends and another may begin, ascending.
        num_bytes: size of the text.
        bytes_read: how much of all stored files has been read up to here; for progress.
        changes: what reading and splitting changed, None if it is reported otherwise.
    """

    ids: TokenArray
    starts_document: bool
    document_ends: Positions
    num_bytes: int
    bytes_read: int
    changes: TextChanges | None = None


@contextlib.contextmanager
def open_token_writer(
    destination: Path, dtype: np.dtype[Any], *, document_starts: bool, end_id: int | None
) -> Iterator[TokenWriter]:
    """Open FILE.npy and the files beside it for writing.

    All files appear under their names when the block ends without an exception; before that, the
    caller must have called `TokenWriter.finish` and `TokenWriter.write_metadata`.

    Args:
        destination: FILE.npy.
        dtype: of the ids.
        document_starts: also write FILE.starts.npy.
        end_id: the id that every document must end with, None for any.
    """
    metadata_path, starts_path = metadata_path_of(destination), starts_path_of(destination)
    had_starts = _has_document_starts(metadata_path)
    with changing_together(destination.parent) as change:
        ids = _ArrayFile(change.open(destination.name, "w+b"), destination, dtype)
        starts = None
        if document_starts:
            starts = _ArrayFile(change.open(starts_path.name, "w+b"), starts_path, np.dtype("<i8"))
        elif had_starts:
            change.remove(starts_path.name)
        metadata_file = change.open(metadata_path.name, "w")  # the last one, see `Change.open`
        yield TokenWriter(ids, starts, end_id, metadata_file)


class TokenWriter:
    """Writes ids, the missing ends of documents, and the positions where documents begin."""

    def __init__(
        self, ids: _ArrayFile, starts: _ArrayFile | None, end_id: int | None, metadata: IO[str]
    ) -> None:
        self._ids = ids
        self._starts = starts
        self._end_id = end_id
        self._metadata = metadata
        self._last: int | None = None  # the last id of this file or row, None if it has none
        self._ended = True  # the next id begins a document

    def write(self, block: EncodedBlock) -> None:
        """Append a block."""
        if block.starts_document:
            self._end_document()
        self._write_ids(block.ids, block.document_ends)

    def finish(self) -> tuple[int, int]:
        """Write all ids to the disk; return the number of ids and that of document starts."""
        self._end_document()
        self._ids.finish()
        if self._starts is None:
            return self._ids.length, 0
        self._starts.finish()
        return self._ids.length, self._starts.length

    def write_metadata(self, metadata: dict[str, Any]) -> None:
        """Write FILE.json."""
        dump_json(metadata, self._metadata)

    def _end_document(self) -> None:
        """End a file or row."""
        if self._end_id is not None and self._last not in (None, self._end_id):
            self._write_ids(np.array([self._end_id], self._ids.dtype), np.empty(0, np.int64))
        self._last = None
        self._ended = True

    def _write_ids(self, ids: TokenArray, document_ends: Positions) -> None:
        if not len(ids):
            return
        if self._starts is not None:
            first = [0] if self._ended else []
            inside = document_ends[document_ends < len(ids)]
            self._starts.append(self._ids.length + np.concatenate([first, inside]).astype("<i8"))
            self._ended = len(inside) < len(document_ends)
        self._ids.append(ids)
        self._last = int(ids[-1])


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
        """Write the length, which is known now, and flush everything to the disk."""
        with naming(self._path):
            self._file.seek(0)
            # The header is padded, so that it does not grow.
            if self._write_header() != self._header_size:
                raise RuntimeError(f"the header of {self._path} changed its size")
            sync_open_file(self._file)

    def _start_write_back(self) -> None:
        """Let the disk write while the next text is encoded, so that the last fsync is short."""
        # On Linux, this advice has one effect on pages that are not on the disk yet: the kernel
        # starts to write them. Other systems ignore it or do much the same.
        pending = self.length * self.dtype.itemsize - self._sent
        if pending >= WRITE_BACK_SIZE and hasattr(os, "posix_fadvise"):
            offset = self._file.tell() - pending
            with contextlib.suppress(OSError):  # a file system may refuse advice
                os.posix_fadvise(self._file.fileno(), offset, pending, os.POSIX_FADV_DONTNEED)
            self._sent += pending

    def _write_header(self) -> int:
        header = {
            "descr": np.lib.format.dtype_to_descr(self.dtype),
            "fortran_order": False,
            "shape": (self.length,),
        }
        np.lib.format.write_array_header_1_0(self._file, header)
        return self._file.tell()


def _has_document_starts(metadata_path: Path) -> bool:
    """Return whether the token file that exists now has document starts."""
    try:
        return "num_documents" in load_metadata(metadata_path)
    except (OSError, ValueError):
        return False
