"""Files of one directory that change together: readers find all of the old ones or all of the new.

A tokenizer is three files, a token file two or three. A rename replaces one file atomically, not
three. Therefore a change of several files has one rename that decides, that of a journal:

1. All new files are written under temporary names (`.NAME.RANDOM.new`) and are on the disk.
2. The journal, `.cs336_basics.journal`, gets its name by a rename. It lists for each file its
   name, its temporary name and its size. **The change takes effect here.**
3. The new files are renamed. The last of the list is removed first and renamed last: a program
   that knows no journal finds an incomplete set rather than a mixture.
4. The journal is removed.

A reader takes each file that a journal lists from its temporary name where that exists, else from
its final name. So a crash is safe at each step:

- before step 2 there is no journal, and no file has changed: readers find the old files. The
  temporary files are unlocked, and the next writer removes them;
- during steps 3 and 4 the journal is there, and each new file has either its temporary or its final
  name: readers find the new files. The next writer in the directory finishes the steps;
- after step 4 the new files are under their names.

Writers take turns in a directory, by a lock on `.cs336_basics.lock`, for steps 2 to 4 only. Without
locks (Windows, some network file systems) two writers of the same files must not run at once.
A reader that opens files while a writer renames them notices it, and opens them again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO

from cs336_basics._support.disk import naming, sync_directory
from cs336_basics._support.reading import open_regular as open_regular
from cs336_basics._support.temporary_files import (
    ALONE,
    TOGETHER,
    NewFile,
    remove_leftovers,
    replaced_file,
    temporary_name_pattern,
)

with contextlib.suppress(ImportError):  # Windows lacks it
    import fcntl

JOURNAL = ".cs336_basics.journal"
LOCK = ".cs336_basics.lock"

_FORMAT = 1
_MAX_BYTES = 1 << 16
_MAX_ATTEMPTS = 2000


@dataclass(frozen=True)
class _Entry:
    """A file of a journal."""

    name: str
    temporary: str | None
    """Its temporary name, in the directory of the file; None: the file is removed."""
    num_bytes: int


class Change:
    """New files of a directory, and files to remove, that take effect together.

    Args:
        directory: created if it is missing.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._new: dict[str, NewFile] = {}
        self._removed: list[str] = []

    def open(self, name: str, mode: str = "wb") -> IO[Any]:
        """Open a new file of this name; see `NewFile` for the modes and the errors.

        The file that is opened last should be the one without which the others cannot be read.
        """
        self._new[name] = NewFile(self._directory / name, mode, TOGETHER)
        return self._new[name].file

    def write(self, name: str, content: str | bytes) -> None:
        """Write a new file of this name; see `open`. An error of the system names the file."""
        with naming(self._directory / name):
            self.open(name, "w" if isinstance(content, str) else "wb").write(content)

    def remove(self, name: str) -> None:
        """Remove the file of this name, if there is one."""
        self._removed.append(name)

    def commit(self) -> None:
        """Let all changes take effect.

        Raises:
            OSError: the files cannot be written; the old ones are unchanged. Or a file cannot be
                renamed any more; then readers find the new ones, and the next writer renames them.
        """
        entries = [_Entry(name, None, 0) for name in self._removed]
        for name, file in self._new.items():
            entries.append(_Entry(name, file.temporary.name, file.finish()))
        with _locked(self._directory):
            _complete(self._directory)
            for file in self._new.values():
                remove_leftovers(file.target, TOGETHER)
            _write_journal(self._directory, entries)
            _rename_files(self._directory, entries)

    def close(self) -> None:
        """Remove the new files, unless they have taken effect."""
        try:
            listed = {entry.temporary for entry in _read_journal(self._directory) or ()}
        except ValueError:  # an older journal, which is damaged
            listed = set()
        for file in self._new.values():
            if file.temporary.name in listed:
                file.release()
            else:
                file.remove()


@contextlib.contextmanager
def changing_together(directory: str | os.PathLike[str]) -> Iterator[Change]:
    """Change several files of a directory as one, when the block ends without an exception.

    Raises:
        OSError, ValueError: see `Change.commit` and `NewFile`; or an older journal is damaged.
    """
    change = Change(Path(directory))
    try:
        yield change
        change.commit()
    finally:
        change.close()


def complete_change(directory: str | os.PathLike[str]) -> None:
    """Finish a change that a writer left when it was killed, if there is one.

    Raises:
        ValueError: the journal is damaged.
        OSError: a file cannot be renamed.
    """
    directory = Path(directory)
    if os.path.lexists(directory / JOURNAL):
        with _locked(directory):
            _complete(directory)


@contextlib.contextmanager
def opened_together(
    directory: str | os.PathLike[str], names: Iterable[str]
) -> Iterator[dict[str, BinaryIO]]:
    """Open files of a directory for reading, all before or all after any change of several files.

    Yields:
        the open files by name, without those that do not exist.

    Raises:
        ValueError: one is not a regular file; or the journal is damaged.
        OSError: one cannot be read.
    """
    directory, names = Path(directory), list(names)
    for _ in range(_MAX_ATTEMPTS):
        with contextlib.ExitStack() as stack:
            before = _read_journal(directory)
            files = _open_all(directory, names, before, stack)
            if _are_current(directory, names, before, files):
                yield files
                return
        time.sleep(0.001)
    raise OSError(f"{directory} changes all the time: try again later")


@contextlib.contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for reading; of a change of several files that was begun, the new one.

    Raises:
        FileNotFoundError: it does not exist.
        ValueError, OSError: see `opened_together`.
    """
    path = Path(path)
    with opened_together(path.parent, [path.name]) as files:
        if path.name not in files:
            open_regular(path).close()  # raises the error of the system
            raise FileNotFoundError(f"{path} does not exist")
        yield files[path.name]


# ------------------------------------------------------------------------ reading


def _open_all(
    directory: Path,
    names: list[str],
    journal: tuple[_Entry, ...] | None,
    stack: contextlib.ExitStack,
) -> dict[str, BinaryIO]:
    """Open the files that exist, under the names that they have now."""
    listed = {entry.name: entry for entry in journal or ()}
    files: dict[str, BinaryIO] = {}
    for name in names:
        candidates = [directory / name]
        if name in listed:
            temporary = _temporary_path(directory, listed[name])
            if temporary is None:
                continue  # the change removes it
            candidates.insert(0, temporary)
        for candidate in candidates:
            with contextlib.suppress(FileNotFoundError):
                files[name] = stack.enter_context(open_regular(candidate))
                break
    return files


def _are_current(
    directory: Path,
    names: list[str],
    journal: tuple[_Entry, ...] | None,
    files: dict[str, BinaryIO],
) -> bool:
    """Return whether the files that were opened belong together.

    Raises:
        ValueError: a file does not have the size that the journal lists.
    """
    if _read_journal(directory) != journal:
        return False
    if journal is not None:
        # No later change can begin before this one is complete, so the files are those listed.
        for entry in journal:
            if entry.name in files:
                _check_size(directory, entry, files[entry.name])
        return True
    # There was no journal before the first file was opened, and there is none now. A change that
    # had renamed one file before it was opened is therefore complete now, so that another file,
    # which was opened before, is no longer the one with that name.
    return all(_is_current(directory / name, files.get(name)) for name in names)


def _is_current(path: Path, file: BinaryIO | None) -> bool:
    """Return whether a name belongs to this open file, or to none."""
    try:
        now = os.stat(path)
    except FileNotFoundError:
        return file is None
    return file is not None and os.path.samestat(now, os.fstat(file.fileno()))


def _check_size(directory: Path, entry: _Entry, file: BinaryIO) -> None:
    size = os.fstat(file.fileno()).st_size
    if size != entry.num_bytes:
        raise ValueError(
            f"{directory / entry.name} has {size:,} bytes, but {JOURNAL} lists "
            f"{entry.num_bytes:,}: write the files of {directory} again"
        )


def _read_journal(directory: Path) -> tuple[_Entry, ...] | None:
    """Return the files that a journal lists, None if there is none.

    Raises:
        ValueError: it is not a journal, or names files elsewhere.
    """
    path = directory / JOURNAL
    try:
        with open_regular(path) as file:
            content = file.read(_MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if len(content) > _MAX_BYTES:
            raise ValueError
        journal = json.loads(content)
        if journal["format"] != _FORMAT or not journal["files"]:
            raise ValueError
        entries = tuple(_Entry(**entry) for entry in journal["files"])
        for entry in entries:
            _check_entry(directory, entry)
    except (ValueError, TypeError, KeyError, RecursionError, OSError):
        raise ValueError(
            f"{path} is damaged: remove it, and write the files of {directory} again"
        ) from None
    return entries


def _check_entry(directory: Path, entry: _Entry) -> None:
    """Check that an entry names a file of the directory, and a temporary file of that file.

    Raises:
        ValueError, TypeError, OSError: it does not.
    """
    name = entry.name
    if name != os.path.basename(name) or name in ("", ".", "..", JOURNAL, LOCK):
        raise ValueError
    if type(entry.num_bytes) is not int or entry.num_bytes < 0:
        raise ValueError
    target = replaced_file(directory / name)
    pattern = temporary_name_pattern(target.name, TOGETHER)
    if entry.temporary is not None and not pattern.fullmatch(entry.temporary):
        raise ValueError


def _temporary_path(directory: Path, entry: _Entry) -> Path | None:
    """Return the path of the temporary file of an entry, None if the file is removed."""
    if entry.temporary is None:
        return None
    return replaced_file(directory / entry.name).parent / entry.temporary


# ------------------------------------------------------------------------ writing


def _write_journal(directory: Path, entries: list[_Entry]) -> None:
    """Write the journal: when it has its name, the change has taken effect."""
    remove_leftovers(directory / JOURNAL, ALONE)
    for folder in _folders(directory, entries):
        sync_directory(folder)  # the names of the temporary files
    journal = NewFile(directory / JOURNAL, "w", ALONE)
    try:
        with naming(directory / JOURNAL):
            files = [dataclasses.asdict(entry) for entry in entries]
            json.dump({"format": _FORMAT, "files": files}, journal.file)
        journal.finish()
        journal.replace()
    finally:
        journal.remove()
    sync_directory(directory)


def _complete(directory: Path) -> None:
    """Finish the change of a writer that was killed; the caller holds the lock."""
    entries = _read_journal(directory)
    if entries is not None:
        _rename_files(directory, list(entries))


def _rename_files(directory: Path, entries: list[_Entry]) -> None:
    """Do what a journal lists, as far as it is not done, and remove the journal."""
    last = _temporary_path(directory, entries[-1])
    if last is not None and last.exists():
        _unlink(replaced_file(directory / entries[-1].name))
    for entry in entries:
        temporary = _temporary_path(directory, entry)
        if temporary is None:
            _unlink(directory / entry.name)
        else:
            with contextlib.suppress(FileNotFoundError):  # it has its final name
                os.replace(temporary, replaced_file(directory / entry.name))
    for folder in _folders(directory, entries):
        sync_directory(folder)
    _unlink(directory / JOURNAL)


def _folders(directory: Path, entries: list[_Entry]) -> list[Path]:
    """Return the directories that hold the files: that of the journal, and those of links."""
    folders = (replaced_file(directory / entry.name).parent for entry in entries)
    return list(dict.fromkeys([directory, *folders]))


def _unlink(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Lock a directory against other writers, for the block."""
    if os.name == "nt":
        yield
        return
    path = directory / LOCK
    handle = _lock(path)
    try:
        yield
    finally:
        try:
            _unlink(path)
        finally:
            os.close(handle)


def _lock(path: Path) -> int:
    """Create and lock a file; return its handle."""
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(path, flags, 0o666)
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            # The writer that had the lock has removed the file; another may have made a new one.
            if os.path.samestat(os.stat(path), os.fstat(handle)):
                return handle
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
