"""Dealing with other processes: files locked against them, and workers that end with them."""

from __future__ import annotations

import os
import threading
import time


def end_with_parent() -> None:
    """End this worker process within a second of its parent, even if the parent is killed.

    Without this, the worker would wait for work forever.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:  # always true on Windows
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def lock_file(path: str | os.PathLike[str]) -> int | None:
    """Open a file, which may be new, and lock it until the returned handle is closed.

    Nothing is locked, and the result is None, on Windows. A file system without locks is ignored.

    Raises:
        BlockingIOError: If another process holds the lock, or has just removed the file.
        OSError: If the file cannot be written or is a symbolic link.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    handle = os.open(path, flags, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.stat(path), os.fstat(handle)):
            raise FileNotFoundError
    except (BlockingIOError, FileNotFoundError):
        os.close(handle)
        raise BlockingIOError(f"{os.fspath(path)} is in use by another process") from None
    except OSError:  # the file system does not support locks
        pass
    return handle
