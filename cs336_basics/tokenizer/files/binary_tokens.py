"""Token files of other programs, FILE.bin: ids as they are in memory, little-endian.

A file of nanoGPT consists of ids only, uint16. A file of llm.c has a header of 256 int32 numbers
before its ids. The first three are a magic number, a version and the number of ids:

    magic number  version  ids
    20240520      1        uint16
    20240801      7        uint32

Neither records the tokenizer, so the ids can only be compared with the size of a vocabulary.

Sources: data/shakespeare/prepare.py and train.py of nanoGPT; dev/data/data_common.py of llm.c.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from cs336_basics._support.arguments import check_choice
from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.lazy import np, npt
from cs336_basics._support.reading import open_regular

ENDING = ".bin"
DTYPES = {"uint16": "<u2", "uint32": "<u4"}
"""Mapping from the types of ids to their names in NumPy."""

HEADER_LENGTH = 256
HEADER_DTYPE = "<i4"
HEADERS = {"uint16": (20240520, 1), "uint32": (20240801, 7)}
"""Mapping from the types of ids to the magic number and the version of llm.c."""
MOST_TOKENS = 2**31 - 1
"""Maximum number of ids in a file of llm.c, whose header has int32 numbers."""

_HEADER_BYTES = HEADER_LENGTH * 4
_BLOCK = 1 << 20


def map_binary_tokens(
    path: Path, dtype: str = "uint16", vocab_size: int | None = None
) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Map the ids of a FILE.bin into memory, read-only, shape (num_tokens,).

    Args:
        path: FILE.bin. A file that starts with a magic number of llm.c is a file of llm.c.
        dtype: Type of the ids in a file without a header, a key of DTYPES.
        vocab_size: Vocabulary size. If given, all ids are read and compared with it.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If `dtype` is unknown, the file has no ids or another size than its header says,
            its ids evidently have another type, or an id is outside the vocabulary.
    """
    check_choice("dtype", dtype, DTYPES)
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        start = 0
        header = np.frombuffer(file.read(12), np.uint8)
        if len(header) == 12:
            magic, version, count = map(int, header.view(HEADER_DTYPE))
            found = next((name for name, (known, _) in HEADERS.items() if known == magic), None)
            if found is not None:
                dtype, start = found, _HEADER_BYTES
                _check_header(path, found, version, count, size)
        kind = np.dtype(DTYPES[dtype])
        count, rest = divmod(size - start, kind.itemsize)
        if count < 1 or rest:
            raise InputError(
                f"must have one or more {dtype} ids of {kind.itemsize} bytes, got {size:,} bytes",
                place=str(path),
            )
        ids = np.memmap(file, kind, "r", start, (count,))
    if dtype == "uint16" and not start:
        _check_is_not_uint32(path, ids)
    if vocab_size is not None:
        largest = max(int(ids[i : i + _BLOCK].max()) for i in range(0, len(ids), _BLOCK))
        if largest >= vocab_size:
            raise InputError(
                f"id {largest} is outside the vocabulary of {vocab_size:,} tokens",
                place=str(path),
                remedy="use the tokenizer that made the file",
            )
    return ids


def _check_header(path: Path, dtype: str, version: int, count: int, size: int) -> None:
    if version != HEADERS[dtype][1]:
        raise InputError(
            f"a file of llm.c with {dtype} ids must have version {HEADERS[dtype][1]}, got "
            f"{version}",
            place=str(path),
        )
    expected = _HEADER_BYTES + count * np.dtype(DTYPES[dtype]).itemsize
    if expected != size:
        raise InputError(
            f"damaged file: the header requires {expected:,} bytes, got {size:,}", place=str(path)
        )


def _check_is_not_uint32(path: Path, ids: npt.NDArray[Any]) -> None:
    """Refuse uint16 ids if every second one is 0, as if uint32 ids had been cut in two."""
    some = ids[: 2 * (min(len(ids), _BLOCK) // 2)]
    if len(some) >= 32 and not some[1::2].any() and some[::2].any():
        raise InputError(
            "every second uint16 id is 0, so the ids are evidently uint32",
            place=str(path),
            remedy=("pass ", Argument("token_dtype", "uint32")),
        )
