"""PlainText: a file that is one document, such as .txt, .md or .py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any

from cs336_basics._support.lazy import LazyModule
from cs336_basics._support.urls import is_url
from cs336_basics.text.cuts import Cuts, blocks_at_cuts, next_cut, safe_blocks
from cs336_basics.text.encodings import BEGINNING, check_signature
from cs336_basics.text.sources.kinds import check_beginning_of
from cs336_basics.text.sources.source import (
    DEFAULT_BLOCK_SIZE,
    DivisibleSource,
    Piece,
    TextBlock,
)
from cs336_basics.text.storage import blocks_between, decompressed_blocks, open_path

if TYPE_CHECKING:
    import shutil
else:
    shutil = LazyModule("shutil")


class PlainText(DivisibleSource):
    """A plain text file, compressed or not. It can be divided at safe cuts (`cuts.py`)."""

    format = "text"
    has_rows = False
    copy_ending = ".txt"

    @classmethod
    def opened(cls, path: str, name: str | None, is_certain: bool, **settings: Any) -> PlainText:
        """See `Source`."""
        check_beginning_of(path, settings["errors"], may_have_rows=is_certain)
        return cls(path, **settings)

    @property
    def local_path(self) -> str | None:
        """See `Source`."""
        return None if self.is_compressed or is_url(self.path) else self.path

    def boundary(self, file: IO[bytes], offset: int, cuts: Cuts) -> int:
        """See `DivisibleSource`."""
        return next_cut(file, offset, cuts, max_bytes=self.max_piece_bytes) if offset else 0

    def read(self, piece: Piece, cuts: Cuts, block_size: int) -> Iterator[TextBlock]:
        """Yield the blocks of the piece."""
        path, limit = self.path, self.max_piece_bytes
        with open_path(path) as file:
            start = 0
            if self.is_compressed:
                found = decompressed_blocks(file, path, block_size)
                blocks = safe_blocks(found, cuts, start, path, limit)
            else:
                start = self.boundary(file, piece.start, cuts)
                end = self.boundary(file, piece.end, cuts)
                if self.local_path is None:
                    found = blocks_between(file, path, start, end, block_size)
                    blocks = safe_blocks(found, cuts, start, path, limit)
                else:
                    blocks = blocks_at_cuts(file, path, start, end, cuts, block_size, limit)
            offset = start
            for block in blocks:
                if offset == 0 and self.errors != "bytes":
                    check_signature(block[:BEGINNING], path)
                done = file.tell() if self.is_compressed else offset + len(block) - start
                done = min(done, piece.num_bytes)
                yield TextBlock(block, offset == 0, path, None, offset, done)
                offset += len(block)

    def copy_at(self, path: str) -> PlainText:
        """See `Source`."""
        return replace(self, path=path)

    def write_copy(self, file: IO[bytes], cuts: Cuts) -> None:
        """See `Source`."""
        with open_path(self.path) as opened:
            if self.is_compressed:
                for block in decompressed_blocks(opened, self.path, DEFAULT_BLOCK_SIZE):
                    file.write(block)
            else:
                shutil.copyfileobj(opened, file, DEFAULT_BLOCK_SIZE)
