"""Outputs of commands: check that they overwrite no inputs, and say which files were kept."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from cs336_basics._support.errors import InputError
from cs336_basics._support.files import check_is_free, check_is_no_input, replaced_file
from cs336_basics._support.messages import short_repr
from cs336_basics.commands._cli import say

if TYPE_CHECKING:
    from cs336_basics.tokenizer import Tokenizer


def check_output(
    option: str,
    file: str | None,
    overwrite: bool,
    inputs: Iterable[str],
    directory: str = "",
    ending: str = "",
) -> None:
    """Check that an output file may be written.

    Args:
        option: Option that names the file, for error messages.
        file: The output file. If None, there is nothing to check.
        overwrite: Whether an existing file may be replaced.
        inputs: Other files that the command reads or writes.
        directory: Directory where the command writes a tokenizer, if any.
        ending: Text with which the file's name must end.

    Raises:
        OSError, ValueError: If the file exists and `overwrite` is false, or if the file is not a
            regular file, is one of the inputs, is inside or contains the tokenizer directory, or
            has another ending.
    """
    if file is None:
        return
    real, other = Path(os.path.realpath(file)), Path(os.path.realpath(directory))
    if directory and (real.is_relative_to(other) or other.is_relative_to(real)):
        raise InputError(
            f"must be outside the tokenizer directory, got {short_repr(file)}", argument=option
        )
    check_is_no_input(file, inputs)
    replaced_file(file)
    check_is_free(file, overwrite)
    if not file.endswith(ending):
        raise InputError(f"must end in {ending}, got {short_repr(file)}", argument=option)


def say_kept(tokenizer: Tokenizer, keep_files: bool) -> None:
    """Print which files beside a tokenizer were kept, if the user asked for it."""
    from cs336_basics.formats.huggingface.kept_files import KEPT_FILES, files_to_keep

    if not keep_files:
        return
    if kept := files_to_keep(tokenizer.loaded_from):
        say(f"kept        {', '.join(kept)}, unchanged, from {tokenizer.loaded_from}")
    else:
        say(f"kept        nothing: {tokenizer.loaded_from} has no {', '.join(KEPT_FILES)}")
