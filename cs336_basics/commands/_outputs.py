"""The files that a command writes are neither its inputs nor in the directory that it replaces."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from cs336_basics._support.files import check_is_no_input, replaced_file
from cs336_basics._support.messages import short_repr
from cs336_basics.formats.outputs import check_is_free


def check_output(
    option: str, file: str | None, overwrite: bool, inputs: Iterable[str], directory: str = ""
) -> None:
    """Refuse a file to write that must not be replaced.

    Args:
        option: that names the file, for the message.
        file: to write; None: there is none.
        overwrite: whether a file that exists may be replaced.
        inputs: other files that the command reads or writes.
        directory: where the command writes a tokenizer.

    Raises:
        OSError, ValueError: it exists, is an input, is in the directory, or is no regular file.
    """
    if file is None:
        return
    real, other = Path(os.path.realpath(file)), Path(os.path.realpath(directory))
    if directory and (real.is_relative_to(other) or other.is_relative_to(real)):
        raise ValueError(
            f"{option} is {short_repr(file)}: the tokenizer's directory is there; name another file"
        )
    inputs = list(inputs)
    if real in (Path(os.path.realpath(path)) for path in inputs):
        raise ValueError(f"{option} is {short_repr(file)}, which the command also uses otherwise")
    check_is_no_input(replaced_file(file), inputs)
    check_is_free(file, overwrite)
