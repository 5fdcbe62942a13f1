"""Inputs other than a single file: standard input and directories."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from cs336_basics._support.errors import InputError
from cs336_basics._support.lazy import LazyModule
from cs336_basics._support.messages import counted, short_names, shown_name, shown_names
from cs336_basics.commands._cli import say

if TYPE_CHECKING:
    import shutil
    import tempfile
else:  # help pages and files on the disk do not need them
    shutil, tempfile = LazyModule("shutil"), LazyModule("tempfile")

STDIN = "-"
"""Input name that stands for standard input."""

STDOUT = "-"
"""Output name that stands for standard output."""

_MOST_LISTED = 20
_MOST_NAMED = 5


def saved_stdin() -> str:
    """Copy standard input to a temporary file that is deleted at exit, and return its path.

    A file is needed because several threads read the text at different offsets, often twice.
    SIGTERM and SIGHUP, which by default end a process without deleting it, become a normal exit.

    Raises:
        ValueError: If standard input is empty.
        OSError: If the disk is full.
    """
    hangup = getattr(signal, "SIGHUP", signal.SIGTERM)  # Windows has none
    in_main_thread = threading.current_thread() is threading.main_thread()
    for number in (signal.SIGTERM, hangup):
        if in_main_thread and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    directory = tempfile.mkdtemp(prefix="cs336-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    path = os.path.join(directory, "stdin")
    shown_names[path] = "standard input"
    with open(path, "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        if not file.tell():
            raise InputError("standard input is empty", remedy="pipe text into the command")
    return path


def say_directories(
    inputs: Iterable[str], format: str | None = None, field: str | None = None
) -> None:
    """Print the files in each input that is a directory, and what was left out."""
    from cs336_basics.text.paths import find_files

    for name in inputs:
        is_directory = os.path.isdir(name)
        if not is_directory and "**" not in name:
            continue
        found = find_files(name, format, field)
        if is_directory:
            say(f"{name}: {counted(len(found.files), 'file')}")
            for file in found.files[:_MOST_LISTED]:
                say(f"  {shown_name(os.path.relpath(file, name))}")
            if len(found.files) > _MOST_LISTED:
                say(f"  and {len(found.files) - _MOST_LISTED:,} more")
        if found.skipped:
            named = [f"{shown_name(path)} ({kind})" for path, kind in found.skipped.items()]
            more = ["..."] if len(named) > _MOST_NAMED else []
            say(f"{name}: left out: {', '.join(named[:_MOST_NAMED] + more)}")
        if found.endings:
            endings = [ending or "none" for ending, _ in found.endings.most_common()]
            more = ["..."] if len(endings) > _MOST_NAMED else []
            files = counted(found.endings.total(), "file")
            kinds = short_names(endings[:_MOST_NAMED] + more)
            say(f"{name}: left out: {files} with other extensions ({kinds}); a glob reads them")
