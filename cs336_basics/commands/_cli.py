"""What a command says, whatever has become of the terminal or the pipe that it says it to."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO


def show_what_can_be_shown() -> None:
    """Print a question mark for what standard output cannot hold, rather than fail.

    A model may write any character, a directory may be named after any, and a terminal may know
    ASCII only.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def say(text: str) -> None:
    """Print a line on standard output, at once: a log file shows how far the command is."""
    _print(text, sys.stdout)


def complain(text: str) -> None:
    """Print a line on standard error."""
    _print(text, sys.stderr)


def complain_of(error: Exception) -> None:
    """Print an error on standard error, in one line."""
    complain(f"error: {' '.join(str(error).split())}")


def silence(stream: TextIO) -> None:
    """Send what a stream without a reader still holds, and all that comes, nowhere."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, stream.fileno())
    os.close(sink)


def _print(text: str, stream: TextIO) -> None:
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        # The reader has left: `| head`, or `| tee` after Ctrl-C, which ends tee as well. That must
        # not cost a run the steps since its last checkpoint.
        silence(stream)
