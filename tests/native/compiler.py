"""The C++ compiler that the tests of native/ use."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "cs336_basics" / "native"


def compiler() -> list[str]:
    """Return the command of the C++ compiler, with the include path; skip where there is none."""
    if sys.platform == "win32":
        pytest.skip("the options of these tests are those of g++ and clang++")
    named = shlex.split(os.environ.get("CXX", ""))
    for command in (named, ["g++"], ["clang++"]):
        if command and shutil.which(command[0]):
            return [*command, "-std=c++17", "-pthread", f"-I{NATIVE}"]
    pytest.skip("there is no C++ compiler (g++ or clang++)")
