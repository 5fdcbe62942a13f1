"""Tests of the C++ encoder alone, where only a sanitizer detects the errors."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
INCLUDE = FOLDER.parents[2] / "cs336_basics" / "native"
OPTIONS = ["-std=c++17", "-O0", "-g", "-pthread", "-rdynamic", "-fsanitize=address"]


@pytest.fixture(scope="module", params=["g++", pytest.param("clang++", marks=pytest.mark.slow)])
def sanitized(request, tmp_path_factory):
    """Return a command that compiles with the address sanitizer."""
    if not sys.platform.startswith("linux") or shutil.which(request.param) is None:
        pytest.skip(f"{request.param} and Linux are needed")
    command = [request.param, *OPTIONS]
    empty = tmp_path_factory.mktemp("sanitized") / "empty.cpp"
    empty.write_text("int main() {}")
    tried = subprocess.run([*command, empty, "-o", empty.with_suffix("")], capture_output=True)
    if tried.returncode:
        pytest.skip(f"this {request.param} has no address sanitizer")
    return command


@pytest.mark.parametrize("contract", ["encoder_contract", "merging_contract"])
def test_what_the_encoder_guarantees_in_cpp(sanitized, tmp_path, contract):
    program = tmp_path / "contract"
    source = FOLDER / f"{contract}.cpp"
    subprocess.run([*sanitized, f"-I{INCLUDE}", source, "-o", program, "-ldl"], check=True)
    done = subprocess.run([program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
