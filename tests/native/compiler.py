"""The C++ compiler for testing the native code."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "cs336_basics" / "native"


def compiler(name: str | None = None) -> list[str]:
    """Return the command for the named or the default compiler, with the include path.

    Skips the test if there is no such compiler.
    """
    if sys.platform == "win32":
        pytest.skip("these tests use options of g++ and clang++")
    named = shlex.split(os.environ.get("CXX", ""))
    for command in [[name]] if name else (named, ["g++"], ["clang++"]):
        if command and shutil.which(command[0]):
            return [*command, "-std=c++17", "-pthread", f"-I{NATIVE}"]
    pytest.skip(f"needs {name or 'g++ or clang++'}")
