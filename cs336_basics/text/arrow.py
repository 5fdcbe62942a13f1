"""Read strings from Arrow arrays, which tables in files and in memory consist of.

pyarrow is imported on first use.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from cs336_basics._support.errors import InputError, UnavailableError
from cs336_basics._support.messages import short_reason


def import_pyarrow(what: str) -> Any:
    """Import and return pyarrow. If it is missing, the ImportError says how to install it."""
    try:
        import pyarrow.ipc
    except ImportError:
        raise UnavailableError(
            f"reading {what} needs pyarrow", remedy="run pip install 'cs336-basics[parquet]'"
        ) from None
    return pyarrow


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    """Convert exceptions that pyarrow raises for damaged data to ValueError.

    OSErrors with an errno propagate unchanged. MemoryErrors are raised again with the message.

    Args:
        what: Error message, to which the reason is appended.
    """
    import pyarrow

    try:
        yield
    except MemoryError as error:  # including pyarrow's, which is also an ArrowException
        raise MemoryError(f"{what}, or out of memory: {short_reason(error)}") from error
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InputError(f"{what}: {short_reason(error)}") from error


def holds_text(kind: Any) -> bool:
    """Return whether columns of this Arrow type contain strings or bytes."""
    import pyarrow

    if pyarrow.types.is_dictionary(kind):
        kind = kind.value_type
    return str(kind) in _AS_BYTES or str(kind) in _AS_BYTES.values()


_AS_BYTES = {"string": "binary", "large_string": "large_binary", "string_view": "binary_view"}
"""Mapping from string types to the bytes types with the same memory layout."""
_MIN_VIEWS_AT_ONCE = 16
_MAX_BYTES_AT_ONCE = 1 << 26
"""Views are converted in slices that cannot exceed this size or have the minimum of rows. Views may
share their bytes, so a small file can contain more text than fits in memory. For the same reason,
the views of a dictionary are converted one at a time."""


def array_texts(array: Any) -> Iterator[bytes | None]:
    """Return an iterator over the values in a pyarrow.Array of strings as UTF-8, None for null.

    Invalid UTF-8 is returned unchanged; the caller checks it.

    Raises:
        pyarrow.ArrowException: If the offsets exceed the data, as in a damaged file. It is raised
            before the first value.
    """
    import pyarrow

    if pyarrow.types.is_dictionary(array.type):
        indices, words = array.indices, _as_bytes(array.dictionary)
        indices.validate(full=True)
        pyarrow.DictionaryArray.from_arrays(indices, words)  # checks that the indices are in range
        if _has_views(words):
            return (None if i is None else words[i].as_py() for i in indices.to_pylist())
        used = indices.drop_null().unique()  # batches may share a large dictionary
        texts = dict(zip(used.to_pylist(), words.take(used).to_pylist(), strict=True))
        return (None if i is None else texts[i] for i in indices.to_pylist())
    array = _as_bytes(array)
    if not _has_views(array):
        return iter(array.to_pylist())
    step = max(_MIN_VIEWS_AT_ONCE, _MAX_BYTES_AT_ONCE // (array.nbytes + 1))
    slices = (array.slice(start, step) for start in range(0, len(array), step))
    return (text for rows in slices for text in rows.to_pylist())


def _as_bytes(array: Any) -> Any:
    """Return an array of strings as a checked array of bytes that shares their memory."""
    import pyarrow

    as_bytes = _AS_BYTES.get(str(array.type))
    if as_bytes is not None:
        array = array.view(getattr(pyarrow, as_bytes)())
    array.validate(full=True)
    return array


def _has_views(array: Any) -> bool:
    return "view" in str(array.type)
