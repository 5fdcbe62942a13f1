"""Atomic files and directories: written under a temporary name, synced to the disk, renamed.

A crash or a kill at any moment leaves what was there before or what is complete. The temporary
name, `.NAME.PID-RANDOM.tmp` in the same directory, tells the process that writes: the next writer
of NAME removes the files of processes that no longer run. (Of two machines or containers that write
one name in a shared directory at the same time, one may therefore fail: its file is gone.)
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

_BLOCK = 1 << 20
_LONGEST_NAME = 200
"""Bytes of a name that its temporary name repeats; most systems allow 255."""
NO_SPACE = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
"""Errors of a disk that is full, or of a limit of the user's."""

_being_written: set[str] = set()
"""Temporary names of this process: its number may be that of a process that was killed."""


@contextlib.contextmanager
def atomic_writer(path: str | os.PathLike[str], mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a temporary file that becomes `path` when the block ends without an exception.

    Args:
        path: the final name; its directory is created if it is missing. A link stays, and its
            target is replaced. A file that is replaced keeps its permissions.
        mode: `"wb"`, `"w+b"`, or `"w"` (UTF-8 with LF line ends on every platform).

    Raises:
        IsADirectoryError: `path` is a directory.
        NotADirectoryError: what should be a directory of `path` is a file.
        ValueError: it is a device, a FIFO or a socket, which cannot be replaced as a whole.
        OSError: it cannot be written; names `path`, and where the disk is full the space.
    """
    encoding, newline = (None, None) if "b" in mode else ("utf-8", "\n")
    with (
        atomic_path(path) as temporary,
        open(temporary, mode, encoding=encoding, newline=newline) as file,
    ):
        yield file


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str], size: int | None = None) -> Iterator[Path]:
    """Yield the name of an empty temporary file that becomes `path`, as `atomic_writer` does.

    For libraries that open the file themselves, or put another in its place. They must close it
    before the block ends.

    Args:
        path: the final name.
        size: bytes that it will have, where that is known, for the message of a full disk.
    """
    target = replaced_file(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with _temporary_name(target, size) as temporary:
        mode = target.stat().st_mode & 0o777 if target.exists() else None
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600))
        if mode is None:
            mode = temporary.stat().st_mode & 0o777
        yield temporary
        sync(temporary)
        if temporary.stat().st_mode & 0o777 != mode:  # safetensors makes files for the owner alone
            os.chmod(temporary, mode)
        os.replace(temporary, target)
        sync(target.parent)


@contextlib.contextmanager
def new_directory(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary directory that becomes `path` when the block ends without an exception.

    Raises:
        FileExistsError: `path` exists and is not an empty directory, or is the current one.
        NotADirectoryError: what should be a directory of `path` is a file.
        OSError: it cannot be written; names `path`, and where the disk is full the space.
    """
    target = Path(os.path.realpath(path))
    _check_is_in_directory(path)
    if os.path.lexists(target):
        if not target.is_dir() or any(target.iterdir()):
            raise FileExistsError(f"{os.fspath(path)} exists and is not empty: name a new one")
        if target == Path.cwd():  # its processes would stay in the one that is replaced
            raise FileExistsError(f"{os.fspath(path)} is the current directory: name a new one")
    target.parent.mkdir(parents=True, exist_ok=True)
    with _temporary_name(target) as temporary:
        temporary.mkdir()
        yield temporary
        for folder, _, names in os.walk(temporary):
            for name in names:
                sync(Path(folder, name))
            sync(Path(folder))
        if os.name == "nt" and target.exists():
            target.rmdir()
        os.replace(temporary, target)
        sync(target.parent)


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write `content` as indented UTF-8 JSON, atomically."""
    with atomic_writer(path, "w") as file:
        file.write(json_text(content))


def json_text(content: Any) -> str:
    """Return `content` as indented JSON, as `write_json` writes it."""
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def check_is_regular(path: str | os.PathLike[str], mode: int) -> None:
    """Check that a file whose mode `os.stat` has returned is a regular one.

    Raises:
        ValueError: it is a directory, a device, a FIFO or a socket.
    """
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "directory", stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket"}
        kind = kinds.get(stat.S_IFMT(mode), "device")
        raise ValueError(f"{os.fspath(path)} is a {kind}: name a regular file")


def replaced_file(path: str | os.PathLike[str]) -> Path:
    """Return the file that is replaced when `path` is written: `path`, or the target of a link."""
    _check_is_in_directory(path)
    # Renaming a file over /dev/stdout would lose the output of the file that it stands for.
    parent = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    if parent == "/dev" or parent.startswith("/proc/"):
        raise ValueError(f"{os.fspath(path)} is a device: name a regular file")
    with contextlib.suppress(FileNotFoundError):  # or a link to a file that does not exist yet
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(f"{os.fspath(path)} is a directory: name a file to write to")
        check_is_regular(path, mode)
    return Path(os.path.realpath(path))


def _check_is_in_directory(path: str | os.PathLike[str]) -> None:
    """Refuse a path through a file, of which the system says no more than "Not a directory"."""
    for parent in Path(path).parents:
        if parent.is_dir():
            return
        if os.path.lexists(parent):
            kind = "a file" if os.path.exists(parent) else "a dangling or circular link"
            raise NotADirectoryError(
                f"{parent} is {kind}, so {os.fspath(path)} cannot be written: name a directory"
            )


@contextlib.contextmanager
def _temporary_name(target: Path, size: int | None = None) -> Iterator[Path]:
    """Yield a name beside `target` that no other writer uses; what is left there is removed."""
    name = target.name
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    _remove_leftovers(target.parent, re.compile(rf"\.{re.escape(name)}\.(\d+)-[0-9a-f]{{8}}\.tmp"))
    temporary = target.with_name(f".{name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    _being_written.add(temporary.name)
    try:
        with full_disk_names(target, size, lambda: remove(temporary)):
            yield temporary
    except OSError as error:
        name = str(error.filename)
        if name == str(temporary) or name.startswith(f"{temporary}{os.sep}"):
            own = str(target) + name.removeprefix(str(temporary))
            raise OSError(error.errno, error.strerror, own) from error
        raise
    finally:
        with contextlib.suppress(OSError):  # which must not hide the first error
            remove(temporary)
        _being_written.discard(temporary.name)


@contextlib.contextmanager
def full_disk_names(
    target: Path, size: int | None = None, free: Callable[[], None] | None = None
) -> Iterator[None]:
    """Name a file, and the space that is missing, in the error of a disk that is full.

    Args:
        target: the file that is written within this block.
        size: its bytes, where that is known.
        free: removes what was written of it, which then counts as free space.
    """
    try:
        yield
    except OSError as error:
        number, reason = error.errno, error.strerror or ""
        if re.fullmatch(r"\d+ requested and \d+ written", str(error)):  # NumPy drops the reason
            number, reason = errno.ENOSPC, os.strerror(errno.ENOSPC)
        # What opens a file has named it, and lacked an entry in a directory, not bytes.
        if error.filename is not None or number not in NO_SPACE:
            raise
        with contextlib.suppress(OSError):
            if free is not None:
                free()
            left = shutil.disk_usage(target.parent).free
            if number == errno.ENOSPC and size is None:
                reason += f": more than the {left:,} bytes that are free are needed"
            elif number == errno.ENOSPC and left < (size or 0):  # or there is a quota
                reason += f": {size:,} bytes are needed and {left:,} are free"
        raise OSError(number, reason, os.fspath(target)) from error


def _remove_leftovers(directory: Path, pattern: re.Pattern[str]) -> None:
    """Remove the temporary files with names like these whose processes no longer run."""
    for name in os.listdir(directory):
        match = pattern.fullmatch(name)
        if match and name not in _being_written and not _runs(int(match[1])):
            with contextlib.suppress(OSError):  # another writer removes it, too
                remove(directory / name)


def _runs(pid: int) -> bool:
    """Return whether another process with this number runs; always on Windows, which cannot say."""
    if os.name == "nt":
        return True
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return pid != os.getpid()


def remove(path: Path) -> None:
    """Remove a file or a whole directory, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on the disk."""
    if path.is_dir() and os.name == "nt":  # which cannot open one
        return
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems
            raise
    finally:
        os.close(handle)


def check_is_no_input(output: str | os.PathLike[str], inputs: Iterable[str]) -> None:
    """Refuse to replace a file that is read, whatever name it has here. Inputs may be URLs.

    Raises:
        ValueError: `output` is one of the inputs.
    """
    identity = _identity(output)
    if identity is not None and identity in map(_identity, inputs):
        raise ValueError(f"{output} would replace a file that is read: choose another name")


def _identity(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    """Return what identifies a file under all its names, None where there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def printable_path(path: str | os.PathLike[str]) -> str:
    """Return a path as text that UTF-8 can encode; a file name need not be valid Unicode."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def sha256_file(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes as 64 hexadecimal digits, reading it in blocks."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
