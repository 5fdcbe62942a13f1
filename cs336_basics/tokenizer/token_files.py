"""Token files: a text file as one long array of ids that is mapped into memory, not read.

FILE.npy is a plain NumPy array, one dimension, uint16 or uint32. FILE.json beside it says which
tokenizer made it and how much there is. Both are checked when the file is opened: ids of another
tokenizer look like any other numbers, and a model would learn noise from them.
"""

from __future__ import annotations

import functools
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

import cs336_basics
from cs336_basics._files import atomic_writer, printable_path, write_json
from cs336_basics.pretokenization import chunk_ranges, read_range
from cs336_basics.pretokenization.chunking import check_chunk_size
from cs336_basics.pretokenization.inputs import is_plain_text
from cs336_basics.pretokenization.parallel import map_ordered, resolve_num_workers
from cs336_basics.tokenizer.tokenizer import Tokenizer

DEFAULT_CHUNK_SIZE = 1 << 20
"""Bytes of text encoded at a time: enough to hide the cost of handing them out."""

_METADATA_KEYS = (
    "tokenizer_hash",
    "vocab_size",
    "dtype",
    "num_tokens",
    "num_bytes",
    "bytes_per_token",
    "source",
    "library_version",
)

TokenArray = npt.NDArray[np.unsignedinteger[Any]]


def encode_file(
    tokenizer: Tokenizer,
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    num_workers: int | None = None,
    progress: bool = False,
    overwrite: bool = False,
    errors: str = "replace",
    chunk_size: int = DEFAULT_CHUNK_SIZE,
) -> dict[str, Any]:
    """Encode a text file to a token file, in constant memory whatever their size.

    The ids are those of the whole text, the same for every number of workers and every chunk size.
    The files appear under their names when they are complete; after an error there is neither.

    Args:
        tokenizer: encodes the text.
        source: a file of UTF-8 text, read as bytes: line ends and a byte order mark are text.
        destination: FILE.npy; FILE.json is written beside it.
        num_workers: worker processes, None = one for each core. No more are started than there
            are chunks.
        progress: show a progress bar on a terminal.
        overwrite: replace files that exist.
        errors: `"replace"` reads bytes that are not UTF-8 as U+FFFD; `"strict"` refuses them.
        chunk_size: bytes of text encoded at a time.

    Returns:
        what FILE.json holds: tokenizer_hash, vocab_size, dtype (uint16, or uint32 where ids reach
        65,536), num_tokens, num_bytes (of the source), bytes_per_token, source, library_version.

    Raises:
        FileNotFoundError: there is no such source.
        FileExistsError: a destination exists, and `overwrite` is false.
        ValueError: the source is empty, a directory, or (`"strict"`) not UTF-8, with the place; the
            destination does not end in .npy; the vocabulary lacks a byte of the text.
        RuntimeError: a worker process died.
    """
    source, destination = Path(source), Path(destination)
    size = _check_source(source)
    metadata_path = _check_destination(destination, source, overwrite)
    if errors not in ("replace", "strict"):
        raise ValueError(f"errors is {errors!r}: it must be 'replace' or 'strict'")
    check_chunk_size(chunk_size)
    dtype = _token_dtype(tokenizer.vocab_size)
    num_workers = min(resolve_num_workers(num_workers), -(-size // chunk_size))
    ranges = chunk_ranges(source, chunk_size, tokenizer.special_tokens, tokenizer.pattern)

    num_tokens = num_bytes = 0
    with (
        tqdm(
            total=size,
            unit="B",
            unit_scale=True,
            desc=f"encoding {source.name}",
            disable=None if progress else True,
        ) as bar,
        atomic_writer(destination, "w+b") as file,
    ):
        header_size = _write_header(file, dtype, 0)
        for ids, length in _encode_ranges(tokenizer, source, ranges, num_workers, dtype, errors):
            file.write(ids)
            num_tokens += len(ids)
            num_bytes += length
            bar.update(length)
        if num_tokens == 0:
            raise ValueError(f"{source} gave no tokens: the pattern matches nothing in it")
        # Now the length is known. The header is padded, so that it does not grow.
        file.seek(0)
        if _write_header(file, dtype, num_tokens) != header_size:
            raise RuntimeError("the header of the token file changed its size")
        # Until the new FILE.json is there, the new ids must not stand beside the old one.
        metadata_path.unlink(missing_ok=True)

    metadata = {
        "tokenizer_hash": tokenizer.hash(),
        "vocab_size": tokenizer.vocab_size,
        "dtype": dtype.name,
        "num_tokens": num_tokens,
        "num_bytes": num_bytes,
        "bytes_per_token": num_bytes / num_tokens,
        "source": printable_path(source),
        "library_version": cs336_basics.__version__,
    }
    try:
        write_json(metadata_path, metadata)
    except BaseException:
        destination.unlink(missing_ok=True)
        raise
    return metadata


def load_token_file(
    path: str | os.PathLike[str],
    *,
    vocab_size: int | None = None,
    tokenizer_hash: str | None = None,
) -> TokenArray:
    """Open a token file as a read-only memory map, after checking it against its FILE.json.

    Args:
        path: FILE.npy, as `encode_file` writes it.
        vocab_size: the number of ids that a model knows; the file's must all be below it.
        tokenizer_hash: `Tokenizer.hash()` of the tokenizer that must have made the file.

    Returns:
        token ids of shape (num_tokens,), dtype uint16 or uint32.

    Raises:
        FileNotFoundError: FILE.npy or FILE.json is missing.
        ValueError: one of them is malformed, they do not belong together, or the file was made for
            another tokenizer or a larger vocabulary.
    """
    path = Path(path)
    metadata_path = path.with_suffix(".json")
    for needed in (path, metadata_path):
        if not needed.is_file():
            raise FileNotFoundError(
                f"{needed} does not exist: a token file is a pair, {path.name} and "
                f"{metadata_path.name}. Make it with `python -m cs336_basics.encode --tokenizer "
                f"DIR --input FILE --output {path}`"
            )
    metadata = _load_metadata(metadata_path)
    try:
        tokens: TokenArray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is not a whole .npy file: {error}. Encode it again") from error
    if not isinstance(tokens, np.ndarray) or tokens.ndim != 1 or tokens.dtype.kind != "u":
        raise ValueError(f"{path} does not hold one row of unsigned ids: encode it again")
    found = {"dtype": tokens.dtype.name, "num_tokens": len(tokens)}
    for key, value in found.items():
        if metadata[key] != value:
            raise ValueError(
                f"{path} has {key} {value}, but {metadata_path.name} says {metadata[key]}: they do "
                "not belong together. Encode the text again"
            )
    if tokenizer_hash is not None and metadata["tokenizer_hash"] != tokenizer_hash:
        raise ValueError(
            f"{path} was made by the tokenizer {metadata['tokenizer_hash']}, not by "
            f"{tokenizer_hash}: load that tokenizer, or encode {metadata['source']} again with this"
        )
    if vocab_size is not None and metadata["vocab_size"] > vocab_size:
        raise ValueError(
            f"{path} has ids up to {metadata['vocab_size'] - 1}, beyond a vocabulary of "
            f"{vocab_size}: set vocab_size to {metadata['vocab_size']}, or encode the text with a "
            "smaller tokenizer"
        )
    return tokens


# --------------------------------------------------------------------- encoding ranges


def _encode_ranges(
    tokenizer: Tokenizer,
    source: Path,
    ranges: Iterator[tuple[int, int]],
    num_workers: int,
    dtype: np.dtype[Any],
    errors: str,
) -> Iterator[tuple[TokenArray, int]]:
    """Yield the ids of each byte range and its length in bytes, in order."""
    if num_workers == 1:
        for start, end in ranges:
            yield _encode_range(tokenizer, source, start, end, dtype, errors)
        return
    # A tokenizer is too large to send with every range: each worker reads it once.
    with tempfile.TemporaryDirectory() as directory:
        tokenizer.save(directory)
        arguments = ((directory, source, start, end, dtype, errors) for start, end in ranges)
        yield from map_ordered(_encode_range_in_worker, arguments, num_workers)


def _encode_range_in_worker(
    directory: str, source: Path, start: int, end: int, dtype: np.dtype[Any], errors: str
) -> tuple[TokenArray, int]:
    return _encode_range(_load_once(directory), source, start, end, dtype, errors)


@functools.lru_cache(maxsize=1)
def _load_once(directory: str) -> Tokenizer:
    return Tokenizer.from_directory(directory)


def _encode_range(
    tokenizer: Tokenizer, source: Path, start: int, end: int, dtype: np.dtype[Any], errors: str
) -> tuple[TokenArray, int]:
    """Return the ids of the bytes [start, end) of a file, and the number of those bytes."""
    data = read_range(source, start, end)
    try:
        text = data.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{source}: byte {data[error.start]:#04x} at offset {start + error.start:,} is not "
            "valid UTF-8; errors='replace' would read it as U+FFFD"
        ) from None
    try:
        ids = tokenizer.encode(text)
    except ValueError as error:
        raise ValueError(f"{source}, the text that begins at byte {start:,}: {error}") from None
    return np.array(ids, dtype=dtype), end - start


# --------------------------------------------------------------------- checks and the header


def _check_source(source: Path) -> int:
    """Return the size of a file that holds something."""
    if not source.exists():
        raise FileNotFoundError(f"{source} does not exist: name a text file to encode")
    if not source.is_file() and not source.is_dir():
        raise ValueError(
            f"{source} is a pipe or a device, which cannot be read in parts: write it to a file "
            "first"
        )
    if source.is_dir():
        raise ValueError(f"{source} is a directory: name a text file to encode")
    if not is_plain_text(source):
        raise ValueError(
            f"{source} is not plain text, by its name: unpack it to UTF-8 text, then encode that"
        )
    size = source.stat().st_size
    if size == 0:
        raise ValueError(f"{source} is empty: there is nothing to encode")
    return size


def _check_destination(destination: Path, source: Path, overwrite: bool) -> Path:
    """Return the path of FILE.json for FILE.npy, after checking that both may be written."""
    if destination.suffix != ".npy":
        raise ValueError(f"{destination} does not end in .npy: a token file is a NumPy array")
    metadata_path = destination.with_suffix(".json")
    for path in (destination, metadata_path):
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a directory: choose another name")
        if path.exists() and path.samefile(source):
            raise ValueError(f"{path} would replace the text that is encoded: choose another name")
        if path.exists() and not overwrite:
            raise FileExistsError(
                f"{path} exists: choose another name, or replace it with overwrite=True "
                "(--overwrite)"
            )
    return metadata_path


def _token_dtype(vocab_size: int) -> np.dtype[Any]:
    """Return the smallest of uint16 and uint32 that holds every id; little-endian everywhere."""
    if vocab_size <= 1 << 16:
        return np.dtype("<u2")
    if vocab_size <= 1 << 32:
        return np.dtype("<u4")
    raise ValueError(f"the greatest id is {vocab_size - 1}: token files hold at most 32 bits")


def _write_header(file: IO[bytes], dtype: np.dtype[Any], num_tokens: int) -> int:
    """Write the header of a .npy file where `file` stands; return where the data begin."""
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": (num_tokens,),
    }
    np.lib.format.write_array_header_1_0(file, header)
    return file.tell()


def _load_metadata(path: Path) -> dict[str, Any]:
    try:
        metadata = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(metadata, dict):
        raise ValueError(f"{path} holds a {type(metadata).__name__}, not an object")
    for key in _METADATA_KEYS:
        if key not in metadata:
            raise ValueError(f"{path} has no {key!r}: it is not the metadata of a token file")
    if type(metadata["vocab_size"]) is not int:
        raise ValueError(f"{path}: vocab_size is {metadata['vocab_size']!r}, not a whole number")
    return metadata
