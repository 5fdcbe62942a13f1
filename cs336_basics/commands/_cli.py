"""How every command runs and ends: what it prints, how it reports errors, its exit status.

| status | meaning |
|---|---|
| 0 | success |
| 1 | something went wrong: an I/O error, too little memory, a worker that died, divergence |
| 2 | the user can mend it: an option, a value, a missing file, refused input, a missing package |
| 130 | Ctrl-C |

Errors are one line on standard error, `cs336 COMMAND: error: MESSAGE`; so are warnings. With the
environment variable CS336_TRACEBACK set, errors are raised instead and show where they come from.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import os
import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

from cs336_basics.commands._parser import Parser

STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (FileNotFoundError, 2),
    (FileExistsError, 2),
    (IsADirectoryError, 2),
    (NotADirectoryError, 2),
    (PermissionError, 2),
    (OSError, 1),
    (ValueError, 2),
    (TypeError, 2),
    (OverflowError, 2),
    (ImportError, 2),
    (MemoryError, 1),
    (RuntimeError, 1),
)
"""The exit status of each expected exception; the first row that matches counts.

Any other exception is a bug of the library and keeps its traceback.
"""


class ReaderLeft(Exception):  # noqa: N818 -- not an error: `... | head` has seen enough
    """Nobody reads standard output any more."""


_FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


def run_command(
    parser: Parser,
    work: Callable[[argparse.Namespace], int | None],
    arguments: Sequence[str] | None = None,
) -> int:
    """Parse a command line, do the work, and return the exit status.

    Args:
        parser: the options of the command.
        work: what the command does with its options; returns an exit status, or None for success.
        arguments: the words after the name of the command; None: those of this process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)

    def parse_and_work() -> int:
        text = parser.requested_help(words)
        if text is not None:
            say(text)
            return 0
        return work(parser.parse(words)) or 0

    return guarded(parser.name, parse_and_work, parser)


def guarded(name: str, work: Callable[[], int], parser: Parser | None = None) -> int:
    """Call `work` and return its exit status, or that of the error it raised, which is printed.

    Args:
        name: what the messages begin with, such as "cs336 train-bpe".
        work: returns an exit status.
        parser: the options of the command, in whose terms errors are explained.
    """
    replace_unencodable_output()
    with _warnings_as_lines(name):
        try:
            return work()
        except KeyboardInterrupt:
            note = f": {parser.interrupted}" if parser is not None and parser.interrupted else ""
            complain(f"{name}: interrupted{note}")
            return 128 + signal.SIGINT
        except ReaderLeft:
            return 0
        except tuple(kind for kind, _ in STATUSES) as error:
            if os.environ.get("CS336_TRACEBACK"):
                raise
            complain(f"{name}: error: {describe_error(error, parser)}")
            return status_of(error)


def status_of(error: Exception) -> int:
    """Return the exit status of an expected exception."""
    return next(status for kind, status in STATUSES if isinstance(error, kind))


def describe_error(error: Exception, parser: Parser | None = None) -> str:
    """Return an error as one line, in terms of the options of the command.

    An error of the operating system names its file: `cannot read FILE: No such file or directory`.
    """
    if isinstance(error, OSError) and error.strerror:
        if not isinstance(error.filename, (str, bytes)):
            return error.strerror
        file = os.fsdecode(error.filename)
        output = None if parser is None else parser.output_at(file)
        if output is None and error.errno not in _FULL_DISK:
            return f"cannot read {file}: {error.strerror}"
        # Creating a directory where a file is says "File exists".
        in_file = error.errno == errno.EEXIST and os.path.isfile(file)
        reason = os.strerror(errno.ENOTDIR) if in_file else error.strerror
        return f"cannot write {output or file}: {reason}"
    from cs336_basics.pretokenization.corpus import MissingFieldError  # only errors need it

    if isinstance(error, MissingFieldError) and parser is not None:
        example = error.columns[0] if error.columns else "text"
        return f"{error.problem}: give --{error.option} {shlex.quote(example)}"
    message = " ".join(str(error).split())
    if not message:  # as of a MemoryError
        return "out of memory" if isinstance(error, MemoryError) else type(error).__name__
    return message if parser is None else parser.in_own_terms(message)


@contextlib.contextmanager
def _warnings_as_lines(name: str) -> Iterator[None]:
    """Within this block, print warnings as one line, without the source line."""

    def print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
        complain(f"{name}: warning: {' '.join(str(message).split())}")

    with warnings.catch_warnings():
        warnings.showwarning = print_warning
        yield


def replace_unencodable_output() -> None:
    """Print a question mark for a character that standard output cannot encode, rather than fail.

    A model may write any character, a directory may have any name, and a terminal may be ASCII.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def say(text: str) -> None:
    """Print a line on standard output, at once: a log file shows how far the command is."""
    _print(text, sys.stdout)


def complain(text: str) -> None:
    """Print a line on standard error."""
    _print(text, sys.stderr)


def show(text: str) -> None:
    """Print a part of a line on standard output, at once.

    Raises:
        ReaderLeft: nobody reads standard output any more.
    """
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:
        silence(sys.stdout)
        raise ReaderLeft from None


def silence(stream: TextIO) -> None:
    """Discard what a stream without a reader still holds, and everything written to it later."""
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
    except OSError as error:  # redirected to a full disk
        silence(stream)
        raise OSError(f"cannot write {stream.name}: {error.strerror}") from error
