"""How every command runs and ends: what it prints, how it reports errors, its exit status.

| status | meaning |
|---|---|
| 0 | success |
| 1 | something went wrong: an I/O error, too little memory, a worker that died, divergence |
| 2 | the user can correct it: an option, a value, refused input, a missing file or package |
| 130 | Ctrl-C |

Errors are one line on standard error, `cs336 COMMAND: error: MESSAGE`; so are warnings. With the
environment variable CS336_TRACEBACK set, errors are raised instead and show where they come from.

What a command prints is a report on its work, and never ends it:

- the reader of standard output has exited (`| head`): nothing more is printed, status 0;
- standard output is closed (`>&-`): nothing is printed, status 0, as with git;
- it cannot be written (a full disk): the work is done, then one line on standard error and status
  1, as with the GNU tools: a script must not take half a report for a whole one;
- standard error is closed or full: nothing is printed there, and the status is as it would be.

Only text whose place is standard output (`generate`) is not continued when it cannot be written.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TextIO

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

_PACKAGES = {"yaml": "pyyaml"} | dict.fromkeys(("torch", "safetensors"), "'cs336-basics[torch]'")
"""Module of another library -> what to install, where that has another name."""

LONGEST_MESSAGE = 2000
"""The most characters of an error or a warning that are printed: half of them from its end."""


class OutputEnded(Exception):  # noqa: N818 -- not always an error: `... | head` has seen enough
    """Standard output takes no more text."""


shown_names: dict[str, str] = {}
"""File of this program's own -> how messages call it."""

_output_errors: list[OSError] = []
"""The error of writing standard output, other than that its reader left, until it is reported."""


def guarded(name: str, work: Callable[[], int]) -> int:
    """Call `work` and return its exit status, or that of the error it raised, which is printed.

    Args:
        name: what the messages begin with, such as "cs336 train-bpe".
        work: returns an exit status.
    """
    open_closed_streams()
    replace_unencodable_output()
    _output_errors.clear()
    with _warnings_as_lines(name):
        status = _status_of_work(name, work)
    if _output_errors:
        complain(f"{name}: error: cannot write standard output: {_output_errors.pop().strerror}")
        return status or 1
    return status


def _status_of_work(name: str, work: Callable[[], int]) -> int:
    """Call `work` and return its exit status, or that of the error it raised, which is printed."""
    try:
        return work()
    except KeyboardInterrupt:
        complain(f"{name}: interrupted")
        return 128 + signal.SIGINT
    except OutputEnded:
        return 0
    except tuple(kind for kind, _ in STATUSES) as error:
        if os.environ.get("CS336_TRACEBACK"):
            raise
        complain(f"{name}: error: {describe_error(error)}")
        return status_of(error)


def status_of(error: Exception) -> int:
    """Return the exit status of an expected exception."""
    return next(status for kind, status in STATUSES if isinstance(error, kind))


def describe_error(error: Exception) -> str:
    """Return an error as one line.

    An error of the operating system names its file: `text.txt: No such file or directory`.
    """
    if isinstance(error, OSError) and error.strerror:
        name = error.filename
        if not isinstance(name, (str, bytes)):
            return error.strerror
        # Making a directory finds that such a link exists.
        is_lost = isinstance(error, FileExistsError) and not os.path.exists(name)
        if is_lost or error.errno == errno.ELOOP:
            return f"{os.fsdecode(name)} is a link that leads nowhere or to itself: name another"
        return f"{os.fsdecode(name)}: {error.strerror}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        module = error.name.partition(".")[0]
        package = _PACKAGES.get(module, module)
        return f"this needs {module}, which is not installed: pip install {package}"

    from cs336_basics.pretokenization.reading.corpus import MissingFieldError

    if isinstance(error, MissingFieldError):
        return f"{error.problem}: give --{error.option} {shlex.quote(error.example)}"
    # The library advises in keyword arguments.
    message = re.sub(r"\b([a-z]+)=True(?: \(--\1\))?", r"--\1", _one_line(str(error)))
    message = re.sub(r"""\b([a-z]+)=["']([a-z]+)["']""", r"--\1 \2", message)
    if isinstance(error, MemoryError):
        return _with_peak("out of memory" if message in ("", "std::bad_alloc") else message)
    return message or type(error).__name__


def _with_peak(message: str) -> str:
    """Return the message of a MemoryError with the memory that the process held."""
    from cs336_basics._support.memory import peak_memory

    peak = peak_memory()
    return message if peak is None else f"{message}; the process held up to {peak / 1e9:.1f} GB"


def _one_line(message: str) -> str:
    """Return a message as one line, without its middle if it is as long as those of a compiler."""
    line = " ".join(message.split())
    left_out = len(line) - LONGEST_MESSAGE
    if left_out <= 0:
        return line
    half = LONGEST_MESSAGE // 2
    return f"{line[:half]} [... {left_out:,} characters left out ...] {line[-half:]}"


@contextlib.contextmanager
def _warnings_as_lines(name: str) -> Iterator[None]:
    """Within this block, print warnings as one line, without the source line."""

    def print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
        complain(f"{name}: warning: {_one_line(str(message))}")

    with warnings.catch_warnings():
        warnings.showwarning = print_warning
        yield


def open_closed_streams() -> None:
    """Open the null device for standard streams that are closed, as git does.

    Otherwise the next file that is opened takes the stream's number, and what a library prints goes
    into that file. In Python such a stream is None, on which other libraries fail.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is this one: the streams before it are open.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 -- as long as the process


def replace_unencodable_output() -> None:
    """Print a question mark for a character that standard output cannot encode, rather than fail.

    A model may write any character, a directory may have any name, and a terminal may be ASCII.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def say(text: str) -> None:
    """Print a line on standard output, at once: a log file shows how far the command is.

    Does nothing once standard output takes no more; see the docstring of this module.
    """
    _write(f"{text}\n")


def show(text: str | bytes) -> None:
    """Print a part of a line on standard output, at once; bytes as they are.

    Raises:
        OutputEnded: standard output takes no more.
    """
    if not _write(text):
        raise OutputEnded


def complain(text: str) -> None:
    """Print a line on standard error, if it can be written."""
    for path, name in shown_names.items():
        text = text.replace(path, name)
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Discard what a stream that cannot be written still holds, and everything written later."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, stream.fileno())
    os.close(sink)


def _write(text: str | bytes) -> bool:
    """Write to standard output; return False, and discard what follows, where that is impossible.

    `| tee` after Ctrl-C, which ends tee as well, must not cost a run the steps since its last
    checkpoint; neither must a full disk under the log file.
    """
    try:
        if isinstance(text, bytes):
            sys.stdout.flush()
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
        else:
            print(text, end="", flush=True)
    except OSError as error:
        silence(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            _output_errors.append(error)
        return False
    return True
