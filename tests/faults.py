"""Make a system call fail, kill the process or interrupt it, to test what it leaves behind."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import signal
import traceback

import pytest

from cs336_basics._support import files
from tests.processes import run_python

CALLS = ("open", "fsync", "replace", "unlink", "chmod", "close", "mkdir", "rmdir", "listdir")


class FaultyCalls:
    """Counts the system calls that change files and makes one of them fail.

    Args:
        patch: A pytest `MonkeyPatch`.
        step: Number of the call that fails, starting at 1.
        fail: Function to call at this step.
        after: Whether to make the system call before `fail`.
    """

    def __init__(self, patch, step, fail, *, after=False):
        self.step, self.fail, self.after = step, fail, after
        self.names = []
        for name in CALLS:
            patch.setattr(os, name, self._watched(name, getattr(os, name)))
        patch.setattr(files, "open", self._open, raising=False)

    def _open(self, *arguments, **options):
        file = open(*arguments, **options)  # noqa: SIM115 -- the caller closes it
        faulty, write = self, file.write

        class WatchedFile:
            def write(self, data):
                return faulty._watched("write", write)(data)

            def __getattr__(self, name):
                return getattr(file, name)

            def __enter__(self):
                return self

            def __exit__(self, *error):
                return file.__exit__(*error)

        return WatchedFile()

    def _try(self, name):
        self.names.append(name)
        if len(self.names) == self.step:
            self.fail()

    def _watched(self, name, function):
        def call(*arguments, **options):
            if not self.after and name != "close":  # even a failing close closes the file
                self._try(name)
                return function(*arguments, **options)
            result = function(*arguments, **options)
            self._try(name)
            return result

        return call


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


def kill_this_process():
    os.kill(os.getpid(), signal.SIGKILL)


def killed_at(step, work, *, after=False):
    """Run `work` in a child process that is killed at call `step`.

    Return whether the child was killed, that is, whether `work` makes that many calls.
    """
    child = os.fork()
    if child == 0:
        try:
            FaultyCalls(pytest.MonkeyPatch(), step, kill_this_process, after=after)
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def kill_at_every_call(work, *, after=False):
    """Run `work` in child processes killed at call 1, 2, ..., and yield after each child."""
    return itertools.takewhile(lambda step: killed_at(step, work, after=after), itertools.count(1))


def fail_at_every_call(work):
    """Run `work` with a full disk at call 1, 2, ..., and yield after each run."""
    for step in itertools.count(1):
        with pytest.MonkeyPatch.context() as patch:
            calls = FaultyCalls(patch, step, disk_is_full)
            try:
                work()
            except (OSError, RuntimeError):  # torch raises RuntimeError for a full disk
                assert len(calls.names) >= step

        if len(calls.names) < step:
            return
        yield step


def run_alone(function, *arguments):
    """Call a function from a test module in a new process and check that it succeeds.

    Use this for tests with hundreds of forks, because each fork takes 40 ms instead of 1 ms if
    torch is loaded.
    """
    name = function.__name__
    code = f"from {function.__module__} import {name}; {name}(*{[*map(str, arguments)]!r})"
    run_python(code)
