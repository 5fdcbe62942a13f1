"""Test that includes and cimports of the compiled code go one way, as Python's imports do."""

from __future__ import annotations

import re

import pytest

from tests.native.compiler import NATIVE

PACKAGE = NATIVE.parent

# Folder of native/ -> the other folders that its headers may include.
MAY_INCLUDE: dict[str, set[str]] = {
    "base": set(),
    "unicode": {"base"},
    "scanning": {"base", "unicode"},
    "counting": {"base", "unicode", "scanning"},
    "word_merging": {"base", "unicode"},
    "encoding": {"base", "unicode", "scanning", "word_merging"},
    "merging": {"base", "unicode", "scanning", "word_merging", "encoding"},
    "inference": {"base"},
}
# Folder of Cython files -> the folders of native/ that they and their cimports may include.
MAY_USE = {
    "_support": {"base"},
    "text": {"base", "unicode"},
    "splitting": {"base", "unicode", "scanning"},
    "counting": {"base", "unicode", "scanning", "counting"},
    "bpe": {"base", "word_merging", "merging"},
    "tokenizer": {"base", "unicode", "scanning", "word_merging", "encoding"},
    "generation": {"base", "inference"},
    "formats": {"word_merging"},
}
MAY_CIMPORT: dict[str, set[str]] = {
    "_support": set(),
    "text": set(),
    "splitting": {"_support"},
    "counting": {"_support", "text", "splitting"},
    "bpe": set(),
    "tokenizer": {"_support", "text", "splitting"},
    "generation": {"_support"},
    "formats": {"text", "tokenizer"},
}

_INCLUDE = re.compile(r'^\s*#include "(\w+)/', re.MULTILINE)
_EXTERN = re.compile(r'^\s*cdef extern from "(\w+)/', re.MULTILINE)
_CIMPORT = re.compile(r"^\s*from cs336_basics\.(\w+)[\w.]* cimport", re.MULTILINE)


def found(pattern: re.Pattern[str], folder: str, *suffixes: str) -> dict[str, set[str]]:
    """Return file name -> the other folders that the file names."""
    paths = [path for suffix in suffixes for path in (PACKAGE / folder).rglob(f"*{suffix}")]
    return {
        path.relative_to(PACKAGE).as_posix(): set(pattern.findall(path.read_text("utf-8")))
        - {path.relative_to(PACKAGE / folder).parts[0], folder.removeprefix("native/")}
        for path in paths
    }


def test_every_folder_has_a_rule():
    assert {path.name for path in NATIVE.iterdir() if path.is_dir()} == set(MAY_INCLUDE)
    assert {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.p[yx][xd]")} <= set(
        MAY_USE
    )


@pytest.mark.parametrize("folder", MAY_INCLUDE)
def test_headers_include_only_what_stands_before_them(folder):
    for name, folders in found(_INCLUDE, f"native/{folder}", ".hpp").items():
        assert folders <= MAY_INCLUDE[folder], name


@pytest.mark.parametrize("folder", MAY_USE)
def test_cython_files_use_only_what_stands_before_them(folder):
    for name, folders in found(_EXTERN, folder, ".pyx", ".pxd").items():
        assert folders <= MAY_USE[folder] | MAY_INCLUDE.get(folder, set()), name
    for name, folders in found(_CIMPORT, folder, ".pyx", ".pxd").items():
        assert folders <= MAY_CIMPORT[folder], name
