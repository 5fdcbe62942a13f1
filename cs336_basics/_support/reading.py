"""Readers for untrusted files. Errors are one-line ValueErrors that name the file."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Sequence
from typing import Any, BinaryIO

from cs336_basics._support.errors import InputError
from cs336_basics._support.lazy import np
from cs336_basics._support.messages import json_kind, short_reason, short_repr
from cs336_basics._support.paths import check_is_regular, checked_path


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading.

    Opening does not block on a FIFO without a writer.

    Raises:
        TypeError: If `path` is not a path.
        ValueError: If `path` is a device, a FIFO or a socket.
        OSError: If `path` cannot be read.
    """

    def open_without_waiting(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))

    path = checked_path("path", path)
    file = open(path, "rb", opener=open_without_waiting)  # noqa: SIM115 -- the caller closes it
    try:
        check_is_regular(path, os.fstat(file.fileno()).st_mode)
    except BaseException:
        file.close()
        raise
    return file


def read_start(path: str | os.PathLike[str], num_bytes: int) -> str:
    """Return the text at the start of a file, with U+FFFD for invalid UTF-8.

    Raises:
        ValueError, OSError: See `open_regular`.
    """
    with open_regular(path) as file:
        return file.read(num_bytes).decode("utf-8", "replace")


def decoded(content: bytes, path: str | os.PathLike[str]) -> str:
    """Decode a file's content and remove any byte order mark.

    Raises:
        ValueError: If the content is not UTF-8. The message gives the byte offset.
    """
    try:
        # "-sig" removes the byte order mark that some Windows editors write.
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"invalid UTF-8 at byte {error.start}: {error.reason}", place=str(path)
        ) from error


def parse_json(content: bytes, path: str | os.PathLike[str], object_pairs_hook: Any = None) -> Any:
    """Parse a file's content as JSON.

    Raises:
        ValueError: If the content is not JSON, or a string in it is not valid Unicode. The message
            names the file and, if known, the line.
    """
    text = decoded(content, path)
    try:
        found = json.loads(text, object_pairs_hook=object_pairs_hook)
        if "\\ud" in text or "\\uD" in text:  # encoding an unpaired surrogate fails
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise InputError(f"invalid Unicode: unpaired surrogate {half!a}", place=str(path)) from None
    except json.JSONDecodeError as error:
        raise InputError(
            f"not JSON: {error.msg}", place=f"{path}, line {error.lineno}, column {error.colno}"
        ) from error
    except RecursionError as error:
        raise InputError("nested too deeply", place=str(path)) from error
    except ValueError as error:
        raise InputError(short_reason(error), place=str(path)) from error


def unique_keys(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the items of a JSON object as a dict. Use this function as `object_pairs_hook`.

    Raises:
        ValueError: If a key occurs twice. By default, Python's parser keeps the last value.
    """
    content = dict(items)
    if len(content) < len(items):
        seen: set[str] = set()
        for key, _ in items:
            if key in seen:
                raise InputError(f"key {short_repr(key)} occurs twice", remedy="remove one")
            seen.add(key)
    return content


def read_small(path: str | os.PathLike[str], longest: int) -> bytes:
    """Return the content of a regular file that must be small.

    Args:
        path: The file.
        longest: Maximum file size in bytes.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is too large.
    """
    with open_regular(path) as file:
        # `read` allocates as many bytes as it is asked for.
        content = file.read(min(os.fstat(file.fileno()).st_size, longest) + 1)
    if len(content) > longest:
        raise InputError(f"must have at most {longest:,} bytes", place=str(path))
    return content


def read_json_object(path: str | os.PathLike[str], longest: int) -> dict[str, Any]:
    """Return the JSON object in a small file.

    Args:
        path: JSON file.
        longest: Maximum file size in bytes.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is too large, does not contain an object or repeats a key.
    """
    found = parse_json(read_small(path, longest), path, unique_keys)
    if not isinstance(found, dict):
        raise InputError(f"must contain a JSON object, got {json_kind(found)}", place=str(path))
    return found


def check_tensor_names(path: str | os.PathLike[str]) -> None:
    """Check that no tensor occurs twice in the header of a safetensors file.

    The safetensors library, which has read the file before, keeps the last one of each name.

    Raises:
        ValueError: If a name occurs twice.
    """
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        parse_json(file.read(size), path, unique_keys)


def read_array_header(
    file: BinaryIO, path: str | os.PathLike[str], size: int, dtypes: Sequence[str]
) -> tuple[np.dtype[Any], int]:
    """Read the header of a one-dimensional .npy array.

    `np.load` is unsafe for untrusted files: a header with an item size of 0 crashes the process,
    and other invalid headers raise errors from Python's parser.

    Args:
        file: File at the start of the array.
        path: Name of the file in messages.
        size: Size of the array including its header, in bytes.
        dtypes: Permitted little-endian element types.

    Returns:
        The dtype and the number of elements. The file is positioned at the first element.

    Raises:
        ValueError: If the file does not contain a complete array of this form.
    """
    start = file.tell()
    try:
        dtype, shape = _parse_array_header(file)
    except Exception as error:  # including a MemoryError from the parser
        reason = error.problem if isinstance(error, InputError) else "its header cannot be read"
        raise InputError(f"not a complete .npy file: {reason}", place=str(path)) from error
    if dtype not in [np.dtype(name).newbyteorder("<") for name in dtypes] or len(shape) != 1:
        raise InputError(
            f"must contain a one-dimensional array of {' or '.join(dtypes)}, got "
            f"{str(dtype)[:80]} of shape {str(shape)[:80]}",
            place=str(path),
        )
    num_bytes, found = shape[0] * dtype.itemsize, size - (file.tell() - start)
    if shape[0] < 0 or num_bytes != found:
        raise InputError(
            f"not a complete .npy file: {num_bytes:,} bytes must follow the header, got {found:,}",
            place=str(path),
        )
    return dtype, shape[0]


def _parse_array_header(file: BinaryIO) -> tuple[np.dtype[Any], tuple[int, ...]]:
    version = np.lib.format.read_magic(file)
    if version != (1, 0):  # later versions are for long headers
        raise InputError(f"unsupported format version {version[0]}.{version[1]}")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if not all(type(length) is int for length in shape):
        raise InputError(f"invalid shape {short_repr(shape)}")
    return dtype, shape
