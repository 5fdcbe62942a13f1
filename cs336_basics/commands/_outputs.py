"""What a command writes must be different files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from cs336_basics._support.messages import short_repr
from cs336_basics.tokenizer.tokenizer import files_of_tokenizer


def check_beside_tokenizer(
    option: str, file: str, directory: str, others: Iterable[str] = ()
) -> None:
    """Refuse a file to write where another file of the command, or the tokenizer's directory, is.

    Args:
        option: that names the file, for the message.
        file: to write.
        directory: where the command writes a tokenizer.
        others: other files that the command reads or writes.

    Raises:
        ValueError: `file` is one of these, or the directory, or a parent of it.
    """
    real = Path(os.path.realpath(file))
    if Path(os.path.realpath(directory)).is_relative_to(real):
        raise ValueError(
            f"{option} is {short_repr(file)}: the tokenizer's directory is there; name another file"
        )
    if real in (
        Path(os.path.realpath(other)) for other in (*files_of_tokenizer(directory), *others)
    ):
        raise ValueError(
            f"{option} is {short_repr(file)}: the command reads or writes this file already; name "
            "another file"
        )
