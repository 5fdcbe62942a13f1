"""Files that are either whole or not there: write to a temporary file, fsync, rename."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

_BLOCK = 1 << 20


@contextlib.contextmanager
def atomic_writer(path: str | os.PathLike[str], mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a temporary file that becomes `path` when the block ends without an exception.

    The data is on the disk before the name changes, so a crash at any moment leaves the old file
    or the new one, never a part. On an exception the temporary file is removed.

    Args:
        path: the final name; its directory is created if it is missing.
        mode: `"wb"`, `"w+b"`, or `"w"` (UTF-8 with LF line ends on every platform).

    Raises:
        IsADirectoryError: `path` is a directory.
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a directory: name a file to write to")
    target.parent.mkdir(parents=True, exist_ok=True)
    encoding, newline = (None, None) if "b" in mode else ("utf-8", "\n")
    # The leading dot and the random part keep two writers of one name apart.
    handle, temporary = tempfile.mkstemp(
        prefix=f".{target.name}.", suffix=".tmp", dir=target.parent
    )
    try:
        with os.fdopen(handle, mode, encoding=encoding, newline=newline) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_UMASK)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    sync_directory(target.parent)


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write `content` as indented UTF-8 JSON, atomically."""
    with atomic_writer(path, "w") as file:
        json.dump(content, file, ensure_ascii=False, indent=2)
        file.write("\n")


def printable_path(path: str | os.PathLike[str]) -> str:
    """Return a path as text that UTF-8 can hold; a file name need not be valid Unicode."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def sha256_file(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes as 64 hexadecimal digits, reading it in blocks."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _read_umask() -> int:
    # The mask can only be read by setting it, which other threads would notice: once, at import.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


# mkstemp makes files that only their owner reads; a finished file gets the usual rights.
_UMASK = _read_umask()


def sync_file(file: Path) -> None:
    """Wait until the content of a file is on the disk."""
    with open(file, "rb+") as handle:
        os.fsync(handle.fileno())


def sync_directory(directory: Path) -> None:
    """Wait until the names in a directory are on the disk."""
    # The rename itself lives in the directory; Windows cannot open one, and needs no sync.
    if os.name == "nt":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
