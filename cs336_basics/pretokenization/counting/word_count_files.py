"""Files of word counts.

A file is a NumPy `.npz` archive (a ZIP file of `.npy` arrays, without pickled objects):

| array | type | content |
|---|---|---|
| `header` | uint8 | UTF-8 JSON: `format`, `version` (1), `pattern`, `special_tokens` |
| `data` | uint8 | the bytes of all words, one after the other |
| `offsets` | int64 little-endian, n + 1 | word i is `data[offsets[i]:offsets[i + 1]]` |
| `counts` | int64 little-endian, n | occurrences of word i, greater than zero |
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from cs336_basics._support.files import atomic_writer
from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics._support.reading import open_regular, parse_json, read_array_header

FORMAT = "cs336_basics word counts"
FORMAT_VERSION = 1

_ARRAYS = {"header": "uint8", "data": "uint8", "offsets": "int64", "counts": "int64"}


Content = tuple[list["npt.NDArray[Any]"], "str | None", "list[str] | None"]
"""`[data, offsets, counts]`, the pattern and the special tokens; see `WordCounts`."""


def write_content(path: str | os.PathLike[str], content: Content) -> None:
    """Write a file of word counts."""
    (data, offsets, counts), pattern, special_tokens = content
    header = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "pattern": pattern,
        "special_tokens": special_tokens,
    }
    with atomic_writer(path) as file:
        np.savez(
            file,
            header=np.frombuffer(json.dumps(header).encode(), np.uint8),
            data=data,
            offsets=offsets.astype("<i8", copy=False),
            counts=counts.astype("<i8", copy=False),
        )


@contextlib.contextmanager
def reading_content(path: str | os.PathLike[str]) -> Iterator[Content]:
    """Read a file of word counts; the block that uses it checks whether the arrays match.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged, of another format or version; also for what the block
            raises.
    """
    with open_regular(path) as file:
        try:
            yield _read(file)
        except MemoryError:
            raise
        except Exception as error:
            # zipfile, zlib, NumPy and JSON each report a damaged archive in their own way.
            raise ValueError(
                f"{os.fspath(path)} is not a file of word counts, or is damaged: "
                f"{short_reason(error)}"
            ) from error


def _read(file: BinaryIO) -> Content:
    with zipfile.ZipFile(file) as archive:
        header = parse_json(_read_array(archive, "header", file).tobytes(), "header.npy")
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            found = header.get("format") if isinstance(header, dict) else header
            raise ValueError(f"its format is {short_repr(found)}")
        arrays = [_read_array(archive, key, file) for key in ("data", "offsets", "counts")]
    if header.get("version") != FORMAT_VERSION:
        raise ValueError(
            f"its version is {short_repr(header.get('version'))}, this library reads "
            f"{FORMAT_VERSION}"
        )
    pattern, special_tokens = header.get("pattern"), header.get("special_tokens")
    if pattern is not None and not isinstance(pattern, str):
        raise ValueError(f"its pattern is {short_repr(pattern)}, not a string")
    if special_tokens is not None and not (
        isinstance(special_tokens, list) and all(isinstance(t, str) for t in special_tokens)
    ):
        raise ValueError(
            f"its special_tokens are {short_repr(special_tokens)}, not a list of strings"
        )
    return arrays, pattern, special_tokens


def _read_array(archive: zipfile.ZipFile, key: str, file: BinaryIO) -> npt.NDArray[Any]:
    """Return an array of the archive, which is not larger than the file."""
    name = f"{key}.npy"
    member = archive.getinfo(name)
    if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
        raise ValueError(f"{name} is compressed: save the counts again, with WordCounts.save")
    if member.file_size > os.fstat(file.fileno()).st_size:
        raise ValueError(f"{name} is longer than the file")
    content = archive.read(member)  # checks the checksum
    stream = io.BytesIO(content)
    dtype, _ = read_array_header(stream, name, len(content), (_ARRAYS[key],))
    return np.frombuffer(content, dtype, offset=stream.tell())
