"""Paths are checked where they enter the library."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cs336_basics import Tokenizer, train_bpe
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.files import new_directory_name
from cs336_basics._support.paths import checked_path
from cs336_basics.checkpoints.run_dir import RunDirectory
from tests.errors import rejects
from tests.tokenizer.examples import byte_tokenizer

IMPOSSIBLE = ["a\0b", "\ud800", Path("a\0b")]
NO_PATHS = [None, 3, True, b"a.txt", [], 1.5]


def test_a_path_is_a_str_with_the_home_directory():
    assert checked_path("path", Path("a") / "b") == os.path.join("a", "b")
    assert checked_path("path", "~") == os.path.expanduser("~")
    assert checked_path("path", os.fsdecode(b"\xff")) == os.fsdecode(b"\xff")  # a name on Linux


@pytest.mark.parametrize("path", [*IMPOSSIBLE, *NO_PATHS])
def test_anything_else_is_refused(path):
    with rejects("path", kind=InputError if path in IMPOSSIBLE else InputTypeError):
        checked_path("path", path)


@pytest.mark.parametrize("use", [new_directory_name, RunDirectory])
@pytest.mark.parametrize("path", [IMPOSSIBLE[0], *NO_PATHS])
def test_directories_to_write_are_checked_as_paths(use, path):
    with rejects("path", kind=InputError if path in IMPOSSIBLE else InputTypeError):
        use(path)


@pytest.mark.parametrize("path", [*IMPOSSIBLE, None, b"a.txt"])
@pytest.mark.parametrize(
    "use",
    [
        Tokenizer.from_directory,
        Tokenizer.from_gpt2,
        lambda path: Tokenizer.from_files(path, path),
        lambda path: train_bpe(path, 260, []),
        byte_tokenizer().save,
    ],
)
def test_functions_refuse_it_with_their_own_error(use, path):
    with pytest.raises(InputError):
        use(path)
