"""Files that store word counts.

A file is a NumPy `.npz` archive (a ZIP file of `.npy` arrays, without pickled objects):

| array | type | content |
|---|---|---|
| `header` | uint8 | UTF-8 JSON: `format`, `version`, `pattern`, `special_tokens`, `normalizer` |
| `data` | uint8 | bytes of all words, concatenated |
| `offsets` | int64 little-endian, n + 1 | word i is `data[offsets[i]:offsets[i + 1]]` |
| `counts` | int64 little-endian, n | number of occurrences of word i, at least 1 |

Files of version 1 have no normalizer. They are still written if there is none.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable
from typing import Any, BinaryIO, TypeVar

import numpy as np
import numpy.typing as npt

from cs336_basics._support.errors import InputError
from cs336_basics._support.files import atomic_writer
from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics._support.reading import open_regular, parse_json, read_array_header
from cs336_basics.text.normalization import check_normalizer

FORMAT = "cs336_basics word counts"
FORMAT_VERSION = 2
_WITHOUT_NORMALIZER = 1

Arrays = tuple["npt.NDArray[Any]", "npt.NDArray[Any]", "npt.NDArray[Any]"]
"""`data`, `offsets` and `counts`."""

Made = TypeVar("Made")


def write_counts(
    path: str | os.PathLike[str],
    arrays: Arrays,
    pattern: str | None,
    special_tokens: list[str] | None,
    normalizer: str | None,
) -> None:
    """Write word counts to a file."""
    data, offsets, counts = arrays
    header = {
        "format": FORMAT,
        "version": _WITHOUT_NORMALIZER if normalizer is None else FORMAT_VERSION,
        "pattern": pattern,
        "special_tokens": special_tokens,
    }
    if normalizer is not None:
        header["normalizer"] = normalizer
    with atomic_writer(path) as file:
        np.savez(
            file,
            header=np.frombuffer(json.dumps(header).encode(), np.uint8),
            data=data,
            offsets=offsets.astype("<i8", copy=False),
            counts=counts.astype("<i8", copy=False),
        )


def read_counts(path: str | os.PathLike[str], make: Callable[..., Made]) -> Made:
    """Return `make(data, offsets, counts, pattern, special_tokens, normalizer)` for a file.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is damaged or has a different format or version, or `make` rejects
            its content.
    """
    with open_regular(path) as file:
        try:
            return make(*_read(file))
        except Exception as error:
            # zipfile, zlib, NumPy and JSON raise different exceptions for a damaged archive.
            raise InputError(
                f"not a word count file, or damaged: {short_reason(error)}", place=os.fspath(path)
            ) from error


def _read(file: BinaryIO) -> tuple[Any, ...]:
    with zipfile.ZipFile(file) as archive:
        header = parse_json(_array(archive, "header", "uint8").tobytes(), "header.npy")
        found = header.get("format") if isinstance(header, dict) else header
        if found != FORMAT:
            raise InputError(f"format must be {FORMAT!r}, got {short_repr(found)}")
        version, pattern = header.get("version"), header.get("pattern")
        if version not in (_WITHOUT_NORMALIZER, FORMAT_VERSION):
            raise InputError(
                f"version must be {_WITHOUT_NORMALIZER} or {FORMAT_VERSION}, got "
                f"{short_repr(version)}"
            )
        if pattern is not None and not isinstance(pattern, str):
            raise InputError(f"pattern must be a string, got {short_repr(pattern)}")
        tokens = header.get("special_tokens")
        if tokens is not None and not (
            isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)
        ):
            raise InputError(f"special_tokens must be a list of strings, got {short_repr(tokens)}")
        normalizer = check_normalizer(header.get("normalizer"))
        data = _array(archive, "data", "uint8")
        offsets, counts = (_array(archive, name, "int64") for name in ("offsets", "counts"))
    return data, offsets, counts, pattern, tokens, normalizer


def _array(archive: zipfile.ZipFile, name: str, dtype: str) -> npt.NDArray[Any]:
    """Return an array from the archive. `read_array_header` explains why `np.load` is not used."""
    member = archive.getinfo(f"{name}.npy")
    sizes = member.file_size, member.compress_size
    if member.compress_type != zipfile.ZIP_STORED or max(sizes) > archive.start_dir:
        raise InputError(f"{member.filename} is compressed, or longer than the file")
    content = archive.read(member)  # verifies the checksum
    stream = io.BytesIO(content)
    found, _ = read_array_header(stream, member.filename, len(content), (dtype,))
    return np.frombuffer(content, found, offset=stream.tell())
