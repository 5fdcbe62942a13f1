"""Indexed datasets, the token files of Megatron-LM, Megatron Bridge and NeMo.

A dataset consists of two files, which Megatron finds by their common prefix. Numbers are
little-endian:

    PREFIX.bin  ids: uint16 or int32
    PREFIX.idx  magic number, version 1 (uint64), code of the ids' type (uint8),
                number of sequences (uint64), number of document indices (uint64),
                length of each sequence in ids (int32),
                offset of each sequence in bytes (int64),
                document indices (int64): the first sequence of each document, and the end

Source: megatron/core/datasets/indexed_dataset.py of megatron-core. Datasets with images, which have
another array at the end, are not supported.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import IO, Any, TypeAlias

from cs336_basics._support.errors import InputError
from cs336_basics._support.files import new_directory
from cs336_basics._support.lazy import np, npt
from cs336_basics._support.messages import short_reason
from cs336_basics._support.reading import open_regular
from cs336_basics.tokenizer.files.joined_tokens import TokenPaths, open_token_files
from cs336_basics.tokenizer.files.token_files import TokenFile

PREFIX = "tokens"
"""Name, without .bin and .idx, of the two files that `write` creates in a directory."""

_HEADER = struct.Struct("<9sQBQQ")
_MAGIC = b"MMIDIDX\0\0"
_VERSION = 1
_TYPES = {8: "<u2", 4: "<i4"}
"""Codes for the types of ids. Megatron reads uint32 ids as int32."""
_LONGEST = 2**31 - 1
"""Maximum length of a sequence, and maximum id in int32."""

_IDS_AT_A_TIME = 1 << 20

Positions: TypeAlias = "npt.NDArray[np.int64]"
IdArray: TypeAlias = "npt.NDArray[np.uint16] | npt.NDArray[np.int32]"


def write(paths: TokenPaths, output: str | os.PathLike[str]) -> None:
    """Write token files as one indexed dataset, with one sequence for each document.

    The two files are tokens.bin and tokens.idx. See `export_tokens`.

    Raises:
        ValueError: If a document has 2**31 or more tokens. Also see `export_tokens`.
    """
    files = open_token_files(paths)
    dtype = np.dtype(files[0].tokens.dtype)
    code = next(code for code, name in _TYPES.items() if np.dtype(name).itemsize == dtype.itemsize)
    lengths = np.concatenate(list(map(_lengths, files)))  # of all documents
    count = len(lengths)
    with new_directory(output) as directory:
        with open(directory / f"{PREFIX}.bin", "wb") as file:
            for found in files:
                _copy_ids(found, file)
        with open(directory / f"{PREFIX}.idx", "wb") as file:
            file.write(_HEADER.pack(_MAGIC, _VERSION, code, count, count + 1))
            lengths.astype("<i4").tofile(file)
            offsets = (np.cumsum(lengths) - lengths) * dtype.itemsize
            offsets.astype("<i8").tofile(file)
            np.arange(count + 1, dtype="<i8").tofile(file)


def load_indexed_dataset(prefix: str | os.PathLike[str]) -> tuple[IdArray, Positions]:
    """Open an indexed dataset, after checking its index.

    Args:
        prefix: Common path of the two files, without .bin and .idx.

    Returns:
        A pair: the ids, mapped read-only, of shape (num_tokens,), uint16 or int32; and the
        positions where documents start, of shape (num_documents,), int64, ascending.

    Raises:
        FileNotFoundError: If one of the files does not exist.
        ValueError: If the index is damaged, does not belong to the ids, specifies another type of
            ids, or has sequences that do not follow one another.

    Example:
        >>> from cs336_basics import Tokenizer
        >>> from cs336_basics.formats import export_tokens
        >>> from cs336_basics.formats.megatron import load_indexed_dataset
        >>> from cs336_basics.tokenizer import encode_file
        >>> tokenizer = Tokenizer.from_directory("tokenizers/stories")
        >>> metadata = encode_file(tokenizer, "stories.txt", "dataset.npy", document_starts=True)
        >>> export_tokens("dataset.npy", "megatron", "megatron")
        >>> ids, starts = load_indexed_dataset("megatron/tokens")
        >>> len(ids) == metadata["num_tokens"], len(starts) == metadata["num_documents"]
        (True, True)
    """
    index_path, ids_path = Path(f"{os.fspath(prefix)}.idx"), Path(f"{os.fspath(prefix)}.bin")
    with open_regular(index_path) as file:
        dtype, lengths, offsets, documents = _map_index(file, index_path)
    ends = np.cumsum(lengths, dtype=np.int64)
    num_tokens = int(ends[-1]) if len(ends) else 0
    if (lengths < 0).any() or not np.array_equal(offsets, (ends - lengths) * dtype.itemsize):
        raise _damaged(index_path, "the sequences do not follow one another")
    bounds_hold = len(documents) and documents[0] == 0 and documents[-1] == len(lengths)
    if not bounds_hold or (documents[1:] < documents[:-1]).any():
        raise _damaged(index_path, "the document indices do not ascend from 0 to the end")
    with open_regular(ids_path) as file:
        size = os.fstat(file.fileno()).st_size
        if size != num_tokens * dtype.itemsize:
            raise InputError(
                f"the index requires {num_tokens * dtype.itemsize:,} bytes, got {size:,}",
                place=str(ids_path),
            )
        ids: IdArray = np.memmap(file, dtype, "r") if size else np.empty(0, dtype)
    return ids, np.concatenate([[0], ends])[documents[:-1]]


def _copy_ids(found: TokenFile, file: IO[bytes]) -> None:
    limit = min(found.metadata["vocab_size"], _LONGEST + 1)
    for first in range(0, len(found.tokens), _IDS_AT_A_TIME):
        some = found.tokens[first : first + _IDS_AT_A_TIME]
        if int(some.max()) >= limit:
            raise InputError(
                f"damaged file: id {some.max()} is not below {limit}", place=str(found.path)
            )
        file.write(some.data)


def _lengths(found: TokenFile) -> Positions:
    lengths = np.diff(found.document_starts(), append=len(found.tokens))
    if len(lengths) and int(lengths.max()) > _LONGEST:
        raise InputError(
            f"documents must have fewer than 2**31 tokens for Megatron, got {lengths.max():,}",
            place=str(found.path),
        )
    return lengths


def _map_index(file: IO[bytes], path: Path) -> tuple[Any, Positions, Positions, Positions]:
    """Return the dtype of the ids, and three arrays: lengths, offsets and document indices."""
    size = os.fstat(file.fileno()).st_size
    try:
        magic, version, code, num_sequences, num_documents = _HEADER.unpack(file.read(_HEADER.size))
    except struct.error as error:
        raise _damaged(path, short_reason(error)) from error
    if magic != _MAGIC or version != _VERSION:
        raise InputError(f"not an index in Megatron's format, version {_VERSION}", place=str(path))
    if code not in _TYPES:
        raise InputError(
            f"ids must be uint16 or int32 (types 8 and 4), got type {code}", place=str(path)
        )
    sizes = (num_sequences * 4, num_sequences * 8, num_documents * 8)
    if _HEADER.size + sum(sizes) != size:
        raise _damaged(path, f"{_HEADER.size + sum(sizes):,} bytes are needed, got {size:,}")
    content = np.memmap(file, np.uint8, "r")
    lengths = np.frombuffer(content, "<i4", num_sequences, _HEADER.size)
    offset = _HEADER.size + sizes[0]
    offsets = np.frombuffer(content, "<i8", num_sequences, offset)
    documents = np.frombuffer(content, "<i8", num_documents, offset + sizes[1])
    return np.dtype(_TYPES[code]), lengths, offsets, documents


def _damaged(path: Path, reason: str) -> ValueError:
    return InputError(f"damaged index: {reason}", place=str(path))
