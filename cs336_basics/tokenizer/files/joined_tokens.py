"""JoinedTokens: a view of the ids of several token files as one sequence."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.messages import short_repr
from cs336_basics.text.paths import PathsLike, expand_paths
from cs336_basics.tokenizer.files.token_files import TokenFile, open_token_file
from cs336_basics.tokenizer.ids import TokenArray

TokenPaths = PathsLike
"""A token file, a glob, or a list of files and globs."""


class JoinedTokens:
    """The concatenated ids of several arrays.

    It supports the array operations that training needs: `len`, `dtype`, `ndim`, `shape`, and
    slices. A slice is a view if it lies within one array, else a copy.

    Args:
        parts: One or more arrays of ids of shape (n,), such as memory maps.

    Attributes:
        parts: The arrays.
        dtype: Common dtype of the arrays.
        ndim: 1.
        shape: (number of ids,).
    """

    ndim = 1

    def __init__(self, parts: Sequence[npt.NDArray[np.integer[Any]]]) -> None:
        self.parts = tuple(parts)
        self.dtype: np.dtype[Any] = np.result_type(*self.parts)
        self._ends = list(itertools.accumulate(len(part) for part in self.parts))
        self.shape = (self._ends[-1],)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: slice) -> npt.NDArray[Any]:
        if not isinstance(index, slice):
            raise InputTypeError(f"must be a slice, got {type(index).__name__}", argument="index")
        start, stop, step = index.indices(len(self))
        if step != 1:
            raise InputError(f"must be a slice with step 1, got {step}", argument="index")
        found = self._between(start, stop)
        return found[0] if len(found) == 1 else np.concatenate(found, dtype=self.dtype)

    def between(self, start: int, stop: int) -> JoinedTokens:
        """Return views of the ids at the positions from `start` to `stop` - 1.

        Raises:
            ValueError: If `start` is above `stop`, or a position is outside the sequence.
        """
        checked_integer("start", start, 0)
        checked_integer("stop", stop, start, len(self))
        return JoinedTokens(self._between(start, stop))

    def _between(self, start: int, stop: int) -> list[npt.NDArray[Any]]:
        """Return one or more views of the ids. If there are several, none is empty."""
        first = min(bisect.bisect_right(self._ends, start), len(self.parts) - 1)
        begin = self._ends[first] - len(self.parts[first])
        found = [self.parts[first][start - begin : max(start, stop) - begin]]
        while self._ends[first] < stop:
            first += 1
            begin = self._ends[first - 1]
            if len(self.parts[first]):
                found.append(self.parts[first][: stop - begin])
        return found


def open_token_files(
    paths: TokenPaths,
    *,
    vocab_size: int | None = None,
    tokenizer_hash: str | None = None,
    dtype: str | None = None,
) -> list[TokenFile]:
    """Open token files that were encoded with the same tokenizer.

    Args:
        paths: A token file, a glob, or a list of files and globs. There must be at least one file.
        vocab_size, tokenizer_hash, dtype: See `load_token_file`.

    Raises:
        ValueError: If two files were encoded with different tokenizers.
    """
    files = [
        open_token_file(path, vocab_size=vocab_size, tokenizer_hash=tokenizer_hash, dtype=dtype)
        for path in expand_paths(paths)
    ]
    if not files:
        raise InputError(
            f"must contain at least one token file, got {short_repr(paths)}", argument="paths"
        )
    recorded = [file for file in files if file.metadata]  # FILE.bin records no tokenizer
    for file in recorded:
        if file.metadata["tokenizer_hash"] != recorded[0].metadata["tokenizer_hash"]:
            raise InputError(
                f"encoded with a different tokenizer than {recorded[0].path}",
                place=str(file.path),
                remedy="encode both texts with the same tokenizer",
            )
    return files


def load_token_files(
    paths: TokenPaths,
    *,
    vocab_size: int | None = None,
    tokenizer_hash: str | None = None,
    dtype: str | None = None,
) -> TokenArray | JoinedTokens:
    """Open token files as a single sequence of ids, with nothing inserted between files.

    See `open_token_files` for the arguments and errors.
    """
    files = open_token_files(
        paths, vocab_size=vocab_size, tokenizer_hash=tokenizer_hash, dtype=dtype
    )
    return files[0].tokens if len(files) == 1 else JoinedTokens([file.tokens for file in files])
