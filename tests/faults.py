"""Make system calls fail, record what a kill would leave behind, and limit time and file sizes."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import signal

import pytest

from cs336_basics._support import files

CALLS = ("open", "fsync", "replace", "unlink", "chmod", "close", "mkdir", "rmdir", "listdir")


@contextlib.contextmanager
def watched_calls(notice):
    """Call `notice(name, done)` before and after every system call that changes files.

    Args:
        notice: Function of the call's name and of whether the call has been made.
    """

    def watched(name, function):
        def call(*arguments, **options):
            notice(name, False)
            result = function(*arguments, **options)
            notice(name, True)
            return result

        return call

    def open_watched(*arguments, **options):
        file = open(*arguments, **options)  # noqa: SIM115 -- the caller closes it

        class WatchedFile:
            write = staticmethod(watched("write", file.write))

            def __getattr__(self, name):
                return getattr(file, name)

            def __enter__(self):
                return self

            def __exit__(self, *error):
                return file.__exit__(*error)

        return WatchedFile()

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, watched(name, getattr(os, name)))
        patch.setattr(files, "open", open_watched, raising=False)
        yield


@contextlib.contextmanager
def alarm(handler, seconds=0.0, every=0.0):
    """Handle SIGALRM, which comes once after `seconds` and then at intervals of `every`.

    A time of 0 means never.
    """
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds, every)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)  # because the handler may start the timer
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def file_size_limit(num_bytes):
    """Limit the size of every file that is written, which has the same effect as a full disk."""
    resource = pytest.importorskip("resource", reason="Windows has no resource limits")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def disk_is_full():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fail_at_every_call(work):
    """Run `work` with a full disk at call 1, 2, ..., and yield after each run."""
    for step in itertools.count(1):
        names = []

        def fail(name, done):
            if done == (name == "close"):  # even a failing close closes the file
                names.append(name)  # noqa: B023 -- used only in this iteration
                if len(names) == step:  # noqa: B023
                    disk_is_full()

        with watched_calls(fail):
            try:
                work()
            except (OSError, RuntimeError):  # torch raises RuntimeError for a full disk
                assert len(names) >= step
        if len(names) < step:
            return
        yield step


def states_at_every_call(work, folder):
    """Run `work`, and return the different states of a folder before and after its calls.

    A process that is killed at a call leaves the state at this call. A state maps relative paths to
    the bytes of files, or to None for directories.
    """
    states = []

    def record(name, done):
        paths = sorted(folder.rglob("*"))
        state = {p.relative_to(folder): p.read_bytes() if p.is_file() else None for p in paths}
        if state not in states:
            states.append(state)

    with watched_calls(record):
        work()
    return states


def restore(state, folder):
    """Create a folder with a state from `states_at_every_call`."""
    folder.mkdir()
    for path, content in state.items():
        if content is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(content)
