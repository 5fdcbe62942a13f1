"""Inputs that are no files with a name: standard input, and the files of a directory."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable

from cs336_basics.commands._cli import say, shown_names

STDIN = "-"
"""The name of standard input, as an input."""

STDOUT = "-"
"""The name of standard output, as an output."""

_MOST_LISTED = 20


def saved_stdin() -> str:
    """Return a file with all of standard input; it is removed when the process ends.

    Text is read in parts, by several threads, and often twice: a pipe has neither.

    Raises:
        ValueError: there was nothing.
        OSError: the disk is full.
    """
    directory = tempfile.mkdtemp(prefix="cs336-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    path = os.path.join(directory, "stdin")
    shown_names[path] = "standard input"
    with open(path, "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        if not file.tell():
            raise ValueError("standard input is empty: pipe text into the command")
    return path


def say_directories(inputs: Iterable[str]) -> None:
    """Print the files of each input that is a directory."""
    from cs336_basics.pretokenization.reading.corpus import expand_paths

    for name in inputs:
        if os.path.isdir(name):
            files = expand_paths(name)
            say(f"{name}: {len(files):,} file{'s' * (len(files) != 1)}")
            for file in files[:_MOST_LISTED]:
                say(f"  {os.path.relpath(file, name)}")
            if len(files) > _MOST_LISTED:
                say(f"  and {len(files) - _MOST_LISTED:,} more")
