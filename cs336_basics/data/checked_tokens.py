"""Token files whose ids were compared with the vocabulary, so that nobody compares them again."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cs336_basics._support.errors import InputError
from cs336_basics.tokenizer.files.joined_tokens import JoinedTokens, open_token_files
from cs336_basics.tokenizer.files.token_files import TokenFile

Ids = npt.NDArray[np.integer[Any]] | JoinedTokens
"""Token ids: an array, a memory map, or several of these joined into one."""

_BLOCK = 1 << 24


@dataclass(frozen=True)
class CheckedTokens:
    """The ids at the positions from `start` to `stop` - 1 of token files, joined in order.

    All ids are below `vocab_size`: the files were encoded with this vocabulary by the run itself,
    or `check_ids` has read them. `prepare_data` makes such objects. They are pickled as the names
    of the files, so that one of several processes can hand them to the others.
    """

    files: tuple[str, ...]
    start: int
    stop: int
    vocab_size: int

    def __len__(self) -> int:
        return self.stop - self.start

    def open(self) -> Ids:
        """Map the ids into memory.

        Raises:
            OSError, ValueError: If a file has been changed or removed since it was checked.
        """
        parts = [file.tokens for file in open_token_files(self.files)]
        joined = JoinedTokens(parts).between(self.start, self.stop)
        return joined.parts[0] if len(joined.parts) == 1 else joined


def check_ids(files: Sequence[TokenFile], vocab_size: int) -> None:
    """Check that all ids are below the vocabulary size, by reading the files.

    Raises:
        ValueError: If an id is too large. It would abort the process on a GPU.
    """
    for file in files:
        _, largest = id_range(file.tokens)
        if largest >= vocab_size:
            raise InputError(
                f"damaged file: id {largest} is outside the vocabulary of {vocab_size:,} tokens",
                remedy="encode the text again",
                place=str(file.path),
            )


def id_range(tokens: Ids) -> tuple[int, int]:
    """Return the smallest and the largest id, or 0 and -1 if there are no ids."""
    ends: list[int] = []
    for start in range(0, len(tokens), _BLOCK):  # the file may be larger than the memory
        ids = tokens[start : start + _BLOCK]
        ends += [int(ids.min()), int(ids.max())]
        release_pages(tokens)
    return min(ends, default=0), max(ends, default=-1)


def release_pages(tokens: Ids) -> None:
    """Release the pages of a read-only memory map.

    Pages that have been read count towards the process's memory, which would grow to the size of
    the file. Released pages stay in the system's page cache, and the map stays valid.
    """
    for part in tokens.parts if isinstance(tokens, JoinedTokens) else (tokens,):
        mapped = getattr(part, "_mmap", None)  # NumPy has no public attribute
        # Releasing pages of a copy-on-write map ("c") would discard changes.
        if isinstance(mapped, mmap.mmap) and getattr(part, "mode", None) == "r":
            advice = getattr(mmap, "MADV_DONTNEED", None)  # not on Windows
            if advice is not None:
                mapped.madvise(advice)
