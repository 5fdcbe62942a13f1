"""JoinedTokens: the ids of several token files as one sequence, of which nothing is copied."""

from __future__ import annotations

import bisect
import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cs336_basics._support.arguments import checked_integer
from cs336_basics.pretokenization.reading.corpus import PathsLike, expand_paths
from cs336_basics.tokenizer.files.token_files import (
    load_metadata,
    load_token_file,
    metadata_path_of,
    starts_path_of,
)
from cs336_basics.tokenizer.ids import TokenArray

TokenPaths = PathsLike
"""A token file, a glob, or several of both."""


class JoinedTokens:
    """The ids of several arrays, one after the other.

    It has what training needs of an array: `len`, `dtype`, `ndim`, `shape`, and slices, which are
    arrays. A slice within one array is a view; one that extends over several is a copy.

    Args:
        parts: arrays of ids of shape (n,), such as memory maps; at least one.

    Attributes:
        parts: the arrays.
        dtype: a dtype that holds the ids of all of them.
        ndim: 1.
        shape: (number of ids,).

    Raises:
        ValueError: there is no array, or one does not have exactly one dimension.
    """

    ndim = 1

    def __init__(self, parts: Sequence[npt.NDArray[np.integer[Any]]]) -> None:
        self.parts = tuple(parts)
        if not self.parts or any(part.ndim != 1 for part in self.parts):
            raise ValueError("parts must be at least one array, each of one dimension")
        self.dtype: np.dtype[Any] = np.result_type(*self.parts)
        self._ends = list(itertools.accumulate(len(part) for part in self.parts))
        self.shape = (self._ends[-1],)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: slice) -> npt.NDArray[Any]:
        if not isinstance(index, slice):
            raise TypeError(f"tokens are read by slices, not by {type(index).__name__}")
        start, stop, step = index.indices(len(self))
        if step != 1:
            raise ValueError(f"the step of a slice is {step}: it must be 1")
        found = self._between(start, stop)
        return found[0] if len(found) == 1 else np.concatenate(found, dtype=self.dtype)

    def between(self, start: int, stop: int) -> JoinedTokens:
        """Return the ids at positions start to stop - 1, as views.

        Raises:
            ValueError: start and stop are not in this order, or lie outside the sequence.
        """
        checked_integer("start", start, 0)
        checked_integer("stop", stop, start, len(self))
        return JoinedTokens(self._between(start, stop))

    def _between(self, start: int, stop: int) -> list[npt.NDArray[Any]]:
        """Return views of the parts, without empty ones; at least one."""
        first = min(bisect.bisect_right(self._ends, start), len(self.parts) - 1)
        begin = self._ends[first] - len(self.parts[first])
        found = [self.parts[first][start - begin : max(start, stop) - begin]]
        while self._ends[first] < stop:
            first += 1
            begin = self._ends[first - 1]
            if len(self.parts[first]):
                found.append(self.parts[first][: stop - begin])
        return found


def expand_token_paths(paths: TokenPaths) -> tuple[str, ...]:
    """Return the token files of paths and globs; a glob may match their document starts as well.

    Raises:
        FileNotFoundError, ValueError, TypeError: see `expand_paths`.
    """
    files = expand_paths(paths)
    beside = {str(starts_path_of(Path(file))) for file in files}
    return tuple(file for file in files if file not in beside)


def load_token_files(
    paths: Sequence[str | os.PathLike[str]],
    *,
    vocab_size: int | None = None,
    tokenizer_hash: str | None = None,
) -> TokenArray | JoinedTokens:
    """Open token files as one sequence of ids, in this order; see `load_token_file`.

    Where one file follows another, nothing is inserted: a file ends as it was encoded.

    Raises:
        FileNotFoundError, ValueError: as `load_token_file`; there is no file; or two files were
            made by different tokenizers.
    """
    if not paths:
        raise ValueError("paths is empty: name at least one token file")
    made_by: dict[str, str | os.PathLike[str]] = {}
    parts = []
    for path in paths:
        parts.append(load_token_file(path, vocab_size=vocab_size, tokenizer_hash=tokenizer_hash))
        made_by.setdefault(str(load_metadata(metadata_path_of(Path(path)))["tokenizer_hash"]), path)
    if len(made_by) > 1:
        one, other = list(made_by.values())[:2]
        raise ValueError(
            f"{one} and {other} were made by different tokenizers: encode the text of both with one"
        )
    return parts[0] if len(parts) == 1 else JoinedTokens(parts)
