"""Atomic files and directories: write under a temporary name, sync, then rename.

Even after a crash, the file has either its old content or the complete new content. The temporary
name is `.NAME.PID-RANDOM.tmp` in the same directory. The next writer of NAME removes the temporary
files of processes that are no longer running, and warns if another process is writing NAME. If two
machines or containers write the same name in a shared directory at the same time, one may remove
the other's temporary file, and the other's write then fails.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from cs336_basics._support.errors import InputError, OutputExistsError
from cs336_basics._support.lazy import LazyModule
from cs336_basics._support.paths import check_is_regular, checked_path
from cs336_basics._support.warnings import warn

if TYPE_CHECKING:
    import hashlib
    import shutil
else:  # help pages write no file
    hashlib, shutil = LazyModule("hashlib"), LazyModule("shutil")

_BLOCK = 1 << 20
_LONGEST_NAME = 200
"""Maximum length of NAME in a temporary name, in bytes. Most systems limit file names to
255 bytes."""
NO_SPACE = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
"""Error numbers for a full disk, an exceeded file size limit and an exceeded quota."""

_being_written: set[str] = set()
"""Temporary names in use by this process. Other names with this PID were left by an earlier
process."""


@contextlib.contextmanager
def atomic_writer(path: str | os.PathLike[str], mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a temporary file that becomes `path` when the `with` block ends without an exception.

    Args:
        path: Final name. A missing parent directory is created. If `path` is a link, its target is
            replaced. An existing file keeps its permissions.
        mode: `"wb"`, `"w+b"`, or `"w"` for UTF-8 with LF line endings on every platform.

    Raises:
        IsADirectoryError: If `path` is a directory.
        NotADirectoryError: If a parent of `path` is a file.
        ValueError: If `path` is a device, a FIFO or a socket.
        OSError: If `path` cannot be written. If the disk is full, the message says how much space
            is free.
    """
    encoding, newline = (None, None) if "b" in mode else ("utf-8", "\n")
    with (
        atomic_path(path) as temporary,
        open(temporary, mode, encoding=encoding, newline=newline) as file,
    ):
        yield file


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the path of an empty temporary file that becomes `path`; see `atomic_writer`.

    Use this function for libraries that open or replace the file themselves. Close the file before
    the `with` block ends.
    """
    target = replaced_file(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with _temporary_name(target) as temporary:
        mode = target.stat().st_mode & 0o777 if target.exists() else None
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600))
        if mode is None:
            mode = temporary.stat().st_mode & 0o777
        yield temporary
        sync(temporary)
        if temporary.stat().st_mode & 0o777 != mode:  # safetensors creates private files
            os.chmod(temporary, mode)
        os.replace(temporary, target)
        sync(target.parent)


@contextlib.contextmanager
def new_directory(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary directory that becomes `path` if the `with` block raises no exception.

    Raises:
        FileExistsError: If `path` is the current directory, or exists and is not empty.
        NotADirectoryError: If a parent of `path` is a file.
        OSError: If `path` cannot be written. If the disk is full, the message says how much space
            is free.
    """
    target = new_directory_name(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with _temporary_name(target) as temporary:
        temporary.mkdir()
        yield temporary
        rename_directory(temporary, target)


def write_directory(output: str | os.PathLike[str], contents: Mapping[str, str | bytes]) -> None:
    """Write a new directory of files atomically.

    Args:
        output: Directory to write. It must be new or empty.
        contents: Mapping of file name -> content. A name may contain the name of a folder.

    Raises:
        FileExistsError, OSError: See `new_directory`.
    """
    with new_directory(output) as directory:
        for name, content in contents.items():
            (directory / name).parent.mkdir(exist_ok=True)
            (directory / name).write_bytes(
                content.encode() if isinstance(content, str) else content
            )


def new_directory_name(path: str | os.PathLike[str]) -> Path:
    """Return the real path of a directory to be created. The given path may start with `~`.

    Raises:
        FileExistsError, NotADirectoryError: See `new_directory`.
    """
    path = checked_path("path", path)
    target = Path(os.path.realpath(path))
    _check_is_in_directory(path)
    if os.path.lexists(target):
        if not target.is_dir() or any(target.iterdir()):
            raise OutputExistsError(
                f"{os.fspath(path)} exists and is not an empty directory",
                remedy="choose a new directory",
            )
        if target == Path.cwd():  # this process would stay in the replaced directory
            raise OutputExistsError(
                f"{os.fspath(path)} is the current directory", remedy="choose another"
            )
    return target


def named_directory(path: str | os.PathLike[str]) -> Path:
    """Return a directory's path, which may start with `~`.

    An empty string, which Path takes for ".", is refused.

    Raises:
        ValueError: If `path` is an empty string.
    """
    checked = checked_path("directory", path)
    if not checked:
        raise InputError("must be a path, got ''", argument="directory")
    return Path(checked)


def rename_directory(source: Path, target: Path) -> None:
    """Rename a directory once its files are on disk. `target` must be missing or empty."""
    for folder, _, names in os.walk(source):
        for name in names:
            sync(Path(folder, name))
        sync(Path(folder))
    if os.name == "nt" and target.exists():
        target.rmdir()
    os.replace(source, target)
    sync(target.parent)


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write `content` as indented UTF-8 JSON, atomically."""
    with atomic_writer(path, "w") as file:
        file.write(json_text(content))


def json_text(content: Any) -> str:
    """Return `content` as indented JSON with a final newline."""
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def check_has_no_links(directory: str | os.PathLike[str]) -> None:
    """Check that a directory contains no symbolic links.

    A write replaces the target of a link, so a link in a directory that others can write to could
    lead to any file.

    Raises:
        ValueError: If an entry of the directory is a symbolic link.
    """
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_symlink():
                raise InputError(f"{entry.path} is a symbolic link", remedy="remove it")


def replaced_file(path: str | os.PathLike[str]) -> Path:
    """Return the file that a write to `path` replaces: `path` itself or, for a link, its target.

    The path may start with `~`.
    """
    path = checked_path("path", path)
    _check_is_in_directory(path)
    # Renaming a file over /dev/stdout would lose the data written to standard output.
    parent = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    if parent == "/dev" or parent.startswith("/proc/"):
        raise InputError(f"{os.fspath(path)} is a device", remedy="use a regular file")
    with contextlib.suppress(FileNotFoundError):  # a new file, or a dangling link
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(f"{os.fspath(path)} is a directory; use a file name")
        check_is_regular(path, mode)
    return Path(os.path.realpath(path))


def _check_is_in_directory(path: str | os.PathLike[str]) -> None:
    """Raise NotADirectoryError if a parent of `path` exists but is not a directory."""
    for parent in Path(path).parents:
        if parent.is_dir():
            return
        if os.path.lexists(parent):
            kind = "a file" if os.path.exists(parent) else "a dangling or circular link"
            raise NotADirectoryError(f"{parent} is {kind}, so {os.fspath(path)} cannot be written")


TEMPORARY_NAME = re.compile(r"\..+\.\d+-[0-9a-f]{8}\.tmp")
"""The names of temporary files: the target's name, this process's PID and a random number."""


@contextlib.contextmanager
def _temporary_name(target: Path) -> Iterator[Path]:
    """Yield a unique temporary name next to `target`. On exit, remove any file with that name."""
    name = target.name
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    pattern = re.compile(rf"\.{re.escape(name)}\.(\d+)-[0-9a-f]{{8}}\.tmp")
    for pid in _remove_leftovers(target.parent, pattern):
        warn(
            f"process {pid} is also writing {target}; the file that is finished last will replace "
            "the other"
        )
    temporary = target.with_name(f".{name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    _being_written.add(temporary.name)
    with full_disk_names(target):
        try:
            yield temporary
        except OSError as error:
            name = str(error.filename)
            if name == str(temporary) or name.startswith(f"{temporary}{os.sep}"):
                own = str(target) + name.removeprefix(str(temporary))
                raise OSError(error.errno, error.strerror, own) from error
            raise
        finally:  # remove the file before full_disk_names measures the free space
            with contextlib.suppress(OSError):  # do not hide the original error
                remove(temporary)
            _being_written.discard(temporary.name)


@contextlib.contextmanager
def full_disk_names(target: Path) -> Iterator[None]:
    """Add the file name and the free space to a "disk full" error from the `with` block."""
    try:
        yield
    except OSError as error:
        number, reason = error.errno, error.strerror or ""
        if re.fullmatch(r"\d+ requested and \d+ written", str(error)):  # NumPy omits the reason
            number, reason = errno.ENOSPC, os.strerror(errno.ENOSPC)
        # An error with a file name comes from open(), which needs no free space.
        if error.filename is not None or number not in NO_SPACE:
            raise
        with contextlib.suppress(OSError):
            if number == errno.ENOSPC:
                free = shutil.disk_usage(target.parent).free
                reason += f": {free:,} bytes are free, but more are needed"
        raise OSError(number, reason, os.fspath(target)) from error


def _remove_leftovers(directory: Path, pattern: re.Pattern[str]) -> list[str]:
    """Remove temporary files that match `pattern` and were left by processes that have ended.

    Return the PIDs of the other processes that have such files.
    """
    running = []
    for name in os.listdir(directory):
        match = pattern.fullmatch(name)
        if not match or name in _being_written:
            continue
        if _runs(int(match[1])):
            running.append(match[1])
            continue
        with contextlib.suppress(OSError):  # another writer may have removed it
            remove(directory / name)
    return running


def _runs(pid: int) -> bool:
    """Return whether another process has this PID. On Windows, always return True."""
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
    """Remove a file or a directory tree if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until the content of a file or directory is on disk."""
    if path.is_dir() and os.name == "nt":  # Windows cannot open a directory
        return
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems
            raise
    finally:
        os.close(handle)


def check_is_free(output: str | os.PathLike[str], overwrite: bool) -> None:
    """Raise an error if an output exists. An empty directory is accepted.

    Raises:
        OutputExistsError: If the output exists and `overwrite` is false.
    """
    path = Path(output)
    if overwrite or not os.path.lexists(path) or (path.is_dir() and not any(path.iterdir())):
        return
    state = "is not empty" if path.is_dir() else "exists"
    raise OutputExistsError(f"{path} {state}")


def check_is_no_input(output: str | os.PathLike[str], inputs: Iterable[str]) -> None:
    """Check that `output` is not one of the inputs, even under another name.

    `inputs` may also contain URLs, and other outputs, which need not exist yet.

    Raises:
        ValueError: If `output` is one of the inputs.
    """
    if _identity(output) in map(_identity, inputs):
        raise InputError(
            f"{output} is also an input or another output", remedy="choose another name"
        )


def _identity(path: str | os.PathLike[str]) -> object:
    """Return the device and inode of a file, or its real path if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return status.st_dev, status.st_ino


def sha256_file(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 digest of a file as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
