"""Reading files that may hold anything: errors are ValueErrors of one line that name the file."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from cs336_basics._support.files import check_is_regular
from cs336_basics._support.lazy import LazyModule
from cs336_basics._support.messages import short_reason, short_repr

if TYPE_CHECKING:
    import numpy as np
else:
    np = LazyModule("numpy")


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading. Nothing else: opening a FIFO waits until it has a writer.

    Raises:
        ValueError: it is a device, a FIFO or a socket.
        OSError: it cannot be read.
    """

    def open_without_waiting(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))

    file = open(path, "rb", opener=open_without_waiting)  # noqa: SIM115 -- the caller closes it
    try:
        check_is_regular(path, os.fstat(file.fileno()).st_mode)
    except BaseException:
        file.close()
        raise
    return file


def decoded(content: bytes, path: str | os.PathLike[str]) -> str:
    """Return the content of a file as text; a byte order mark at its beginning is omitted.

    Raises:
        ValueError: it is not UTF-8; names the byte.
    """
    try:
        # "-sig": some Windows editors write a byte order mark.
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 at byte {error.start}: {error.reason}") from error


def parse_json(content: bytes, path: str | os.PathLike[str], object_pairs_hook: Any = None) -> Any:
    """Return what the content of a file means as JSON.

    Raises:
        ValueError: it is not JSON, or has a string that is not valid Unicode; names the file, and
            the line where that is known.
    """
    text = decoded(content, path)
    try:
        found = json.loads(text, object_pairs_hook=object_pairs_hook)
        if "\\ud" in text or "\\uD" in text:  # half of a surrogate pair cannot be written again
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise ValueError(f"{path} has the escape {half!a} alone: it is not valid Unicode") from None
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {error.lineno}, column {error.colno}: not JSON: {error.msg}"
        ) from error
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"{path}: {short_reason(error)}") from error


def unique_keys(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the items of a JSON object; as a hook of `parse_json`, it refuses repeated keys.

    A dict would silently keep the last of two equal keys.

    Raises:
        ValueError: a key occurs twice; names it.
    """
    content = dict(items)
    if len(content) < len(items):
        seen: set[str] = set()
        for key, _ in items:
            if key in seen:
                raise ValueError(f"the key {short_repr(key)} occurs twice: remove one")
            seen.add(key)
    return content


def read_json_object(path: Path, longest: int) -> dict[str, Any]:
    """Return the object in a small file of JSON.

    Args:
        path: the file.
        longest: bytes that such a file can have.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is longer, or does not hold an object.
    """
    with open_regular(path) as file:
        content = file.read(longest + 1)
    if len(content) > longest:
        raise ValueError(f"{path} is longer than {longest:,} bytes")
    found = parse_json(content, path)
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds a value of type {type(found).__name__}, not an object")
    return found


def read_array_header(
    file: BinaryIO, path: str | os.PathLike[str], size: int, dtypes: Sequence[str]
) -> tuple[np.dtype[Any], int]:
    """Read the header of a .npy array of one dimension; the elements follow in the file.

    `np.load` is not used: some headers make it end the process (items without a size), or raise
    what the Python parser raises.

    Args:
        file: at the beginning of the array.
        path: its name, for messages.
        size: bytes from there to the end of the array.
        dtypes: the types that its elements may have, little-endian.

    Returns:
        the type and the number of the elements.

    Raises:
        ValueError: it is not such an array.
    """
    start = file.tell()
    try:
        dtype, shape = _parse_array_header(file)
    except Exception as error:  # also a MemoryError of the parser; a header has 10,000 bytes
        raise ValueError(f"{path} is not a complete .npy file: {short_reason(error)}") from error
    if dtype not in [np.dtype(name).newbyteorder("<") for name in dtypes] or len(shape) != 1:
        raise ValueError(
            f"{path} holds {str(dtype)[:80]} of shape {str(shape)[:80]}: it must hold "
            f"{' or '.join(dtypes)} of one dimension"
        )
    num_bytes, found = shape[0] * dtype.itemsize, size - (file.tell() - start)
    if shape[0] < 0 or num_bytes != found:
        raise ValueError(
            f"{path} is not a complete .npy file: its header says {num_bytes:,} bytes of array and "
            f"{found:,} follow it"
        )
    return dtype, shape[0]


def _parse_array_header(file: BinaryIO) -> tuple[np.dtype[Any], tuple[int, ...]]:
    version = np.lib.format.read_magic(file)
    if version != (1, 0):  # the others are for headers of more than 65,535 bytes and records
        raise ValueError(f"its format has the version {version[0]}.{version[1]}")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if not all(type(length) is int for length in shape):
        raise ValueError(f"its shape is {short_repr(shape)}")
    return dtype, shape
