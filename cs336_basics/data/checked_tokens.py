"""Token files whose ids were compared with the vocabulary, so that nobody compares them again."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cs336_basics._support.errors import InputError, RunError
from cs336_basics.tokenizer.files.joined_tokens import JoinedTokens, open_token_files
from cs336_basics.tokenizer.files.token_files import TokenFile

Ids = npt.NDArray[np.integer[Any]] | JoinedTokens
"""Token ids: an array, a memory map, or several of these joined into one."""

_BLOCK = 1 << 24


@dataclass(frozen=True)
class CheckedTokens:
    """Ids of token files that are joined in order, at ranges of positions.

    All ids are below `vocab_size`: the files were encoded with this vocabulary by the run itself,
    or `check_ids` has read them. `prepare_data` makes such objects. They are pickled as the names
    of the files, so that one of several processes can hand them to the others.
    """

    files: tuple[str, ...]
    ranges: tuple[tuple[int, int], ...]
    """Ascending ranges: the first position, and the position after the last."""
    vocab_size: int
    dtype: str | None = None
    """Type of the ids in .bin files; see `load_token_file`."""

    def __len__(self) -> int:
        return sum(stop - start for start, stop in self.ranges)

    def portions(self) -> list[tuple[str, float, CheckedTokens]]:
        """Return a name, a weight and the ids: a mixture of a single corpus."""
        return [("", 1.0, self)]

    def open(self) -> Ids:
        """Map the ids into memory.

        Raises:
            OSError, ValueError: If a file has been changed or removed since it was checked.
        """
        whole = JoinedTokens([f.tokens for f in open_token_files(self.files, dtype=self.dtype)])
        parts = [part for begin, end in self.ranges for part in whole.between(begin, end).parts]
        return parts[0] if len(parts) == 1 else JoinedTokens(parts)


@dataclass(frozen=True)
class MixedTokens:
    """The ids of several corpora, each with its share of the training windows.

    `prepare_data` makes such objects for the trainer.
    """

    names: tuple[str, ...]
    weights: tuple[float, ...]
    """Share of each corpus. The sum is 1, except for rounding."""
    corpora: tuple[CheckedTokens, ...]

    def __len__(self) -> int:
        return sum(map(len, self.corpora))

    def portions(self) -> list[tuple[str, float, CheckedTokens]]:
        """Return the name, the weight and the ids of each corpus."""
        return [*zip(self.names, self.weights, self.corpora, strict=True)]


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


def contains(tokens: Ids, token_id: int) -> bool:
    """Return whether an id occurs, reading no more tokens than needed."""
    size = 1 << 12
    start = 0
    while start < len(tokens):
        if (tokens[start : start + size] == token_id).any():
            return True
        release_pages(tokens)
        start += size
        size = min(2 * size, _BLOCK)
    return False


def check_is_whole(tokens: Ids) -> None:
    """Check that the files of memory maps have not been truncated since they were mapped.

    Reading a page after the end of a file ends the process with SIGBUS, without a message. The
    check takes a microsecond for each file.

    Raises:
        RuntimeError: If a file is shorter than its map. The message includes its path.
    """
    for part in tokens.parts if isinstance(tokens, JoinedTokens) else (tokens,):
        mapped = getattr(part, "_mmap", None)  # NumPy has no public attribute
        if isinstance(mapped, mmap.mmap) and (size := mapped.size()) < len(mapped):
            raise RunError(
                f"the file was truncated to {size:,} bytes while it was in use",
                place=str(getattr(part, "filename", "a token file")),
                remedy="restore it, and resume the run",
            )


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
