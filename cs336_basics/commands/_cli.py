"""Output, error messages and exit statuses, shared by all commands.

CONTRIBUTING.md lists the statuses, and describes what happens if writing to standard output fails.
If standard error is closed or full, messages are lost and the status does not change. Set the
CS336_TRACEBACK environment variable to see the traceback of an error.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from cs336_basics._support.errors import Argument, InputError, ReportedError
from cs336_basics._support.memory import is_out_of_memory, peak_memory
from cs336_basics._support.messages import shown_names
from cs336_basics._support.visible import without_controls

MISTAKES = (
    InputError, ImportError,
    FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError,
)  # fmt: skip
"""Exceptions caused by what the user asked for."""

_PACKAGES = {"yaml": "pyyaml"} | dict.fromkeys(("torch", "safetensors"), "'cs336-basics[torch]'")
"""Mapping from modules to their packages, where the names differ."""

LONGEST_MESSAGE = 2000
"""Maximum length of a printed error or warning. Longer ones are shortened in the middle."""


class OutputEnded(Exception):  # noqa: N818 -- `... | head` is not an error
    """Raised when standard output can no longer be written to."""


_output_errors: list[OSError] = []
"""Unreported errors from writing to standard output, other than a broken pipe."""


def guarded(name: str, work: Callable[[], int], shown: Callable[[Argument], str] = str) -> int:
    """Call `work` and return its exit status. Print an expected error and return its own status.

    Args:
        name: Prefix of messages, such as "cs336 train-bpe".
        work: Function that returns an exit status.
        shown: Function that formats the arguments in error messages as options.
    """
    open_closed_streams()
    replace_unencodable_output()
    _output_errors.clear()
    with _warnings_as_lines(name):
        status = _status_of_work(name, work, shown)
    if _output_errors:
        complain(f"{name}: error: cannot write to standard output: {_output_errors.pop().strerror}")
        return status or 1
    return status


def _status_of_work(name: str, work: Callable[[], int], shown: Callable[[Argument], str]) -> int:
    try:
        return work()
    except KeyboardInterrupt:
        complain(f"{name}: interrupted")
        return 128 + signal.SIGINT
    except OutputEnded:
        return 0
    except Exception as error:
        status = _status_of_error(error)
        if status is None or os.environ.get("CS336_TRACEBACK"):
            raise
        complain(f"{name}: error: {describe_error(error, shown)}")
        return status


def _status_of_error(error: Exception) -> int | None:
    """Return the exit status of an expected error, or None for a bug in the library."""
    if isinstance(error, ImportError) and (error.name or "").startswith("cs336_basics"):
        return None
    if isinstance(error, MISTAKES):
        return 2
    if isinstance(error, (ReportedError, OSError)) or is_out_of_memory(error):
        return 1
    return None


def describe_error(error: Exception, shown: Callable[[Argument], str] = str) -> str:
    """Return an error as one line, such as `text.txt: No such file or directory`.

    Args:
        error: The error.
        shown: Function that formats the arguments in the message as options.
    """
    if isinstance(error, ReportedError):
        return _one_line(error.message(shown)) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        name = error.filename
        if not isinstance(name, (str, bytes)):
            return error.strerror
        return f"{os.fsdecode(name)}: {error.strerror}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        module = error.name.partition(".")[0]
        package = _PACKAGES.get(module, module)
        return f"{module} is required but not installed: pip install {package}"
    message = _one_line(str(error))
    if is_out_of_memory(error):
        message = "out of memory" if message in ("", "std::bad_alloc") else message
        peak = peak_memory()
        return message if peak is None else f"{message}; peak memory was {peak / 1e9:.1f} GB"
    return message or type(error).__name__


def _one_line(message: str) -> str:
    """Join a message's lines. If it is long, such as a compiler error, cut out the middle."""
    line = " ".join(message.split())
    left_out = len(line) - LONGEST_MESSAGE
    if left_out <= 0:
        return line
    half = LONGEST_MESSAGE // 2
    return f"{line[:half]} [... {left_out:,} characters omitted ...] {line[-half:]}"


@contextlib.contextmanager
def _warnings_as_lines(name: str) -> Iterator[None]:
    """Print warnings issued within this block as one line each, without the source line."""

    def print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
        complain(f"{name}: warning: {_one_line(str(message))}")

    with warnings.catch_warnings():
        warnings.showwarning = print_warning
        yield


def open_closed_streams() -> None:
    """Connect closed standard streams to the null device, as git does.

    Otherwise, the next file to be opened would get the stream's descriptor, and a library that
    writes to the descriptor would write to that file. Python also sets a closed stream to None,
    which many libraries do not expect.
    """
    closed = [
        (number, name, mode)
        for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w"))
        if getattr(sys, name) is None
    ]
    for number, _, _ in closed:  # all of them first: a wrapper would take the next one's descriptor
        try:
            os.fstat(number)
        except OSError:
            # os.open returns the lowest free descriptor, which is the stream's.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for _, name, mode in closed:
        setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 -- stays open until exit


def replace_unencodable_output() -> None:
    """Make standard output print a question mark for each character that it cannot encode.

    Generated text and file names can contain any character, but a terminal may support only ASCII.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def say(text: str) -> None:
    """Print a line on standard output and flush it, so that log files show current progress.

    The line may contain names from files, so control characters in it are made visible. Do nothing
    once standard output can no longer be written to.
    """
    _write(f"{without_controls(text)}\n")


def show(text: str | bytes, *, is_safe: bool = False) -> None:
    """Print content, such as a decoded text, on standard output, without a newline, and flush.

    A file or a pipe receives the content as it is. On a terminal, control characters in it are made
    visible.

    Args:
        text: Text or raw bytes.
        is_safe: Whether the caller has made the text safe for a terminal, apart from its colors.

    Raises:
        OutputEnded: If standard output can no longer be written to.
    """
    if not is_safe and sys.stdout.isatty():
        text = without_controls(text if isinstance(text, str) else text.decode("utf-8", "replace"))
    if not _write(text):
        raise OutputEnded


def complain(text: str) -> None:
    """Print a line on standard error, as `say` does. Do nothing if it cannot be written to."""
    for path, name in shown_names.items():
        text = text.replace(path, name)
    try:
        print(without_controls(text), file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Discard the buffer of a stream that cannot be written to, and all later output to it."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, stream.fileno())
    os.close(sink)


def _write(text: str | bytes) -> bool:
    """Write to standard output. On failure, discard all later output and return False.

    Raising an error here would cost a training run the steps since its last checkpoint, for example
    when Ctrl-C also ends the `tee` that its output is piped to, or when the disk with the log file
    is full.
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
