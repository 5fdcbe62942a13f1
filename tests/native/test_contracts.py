"""Test the C++ counting code with the address and undefined-behavior sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.native.compiler import compiler

SANITIZERS = ["-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def test_counting_contracts_pass_under_sanitizers(tmp_path):
    empty = tmp_path / "empty.cpp"
    empty.write_text("int main() {}")
    command = [*compiler(), *SANITIZERS]
    tried = subprocess.run([*command, empty, "-o", tmp_path / "empty"], capture_output=True)
    if tried.returncode:
        pytest.skip("this compiler has no sanitizers")
    source = Path(__file__).parent / "counting_contract.cpp"
    program = tmp_path / "counting_contract"
    subprocess.run([*command, "-Wall", "-Wextra", source, "-o", program], check=True)
    done = subprocess.run([program, tmp_path], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    # Each process has its own seed.
    assert len({subprocess.check_output([program, "--seed"]) for _ in range(3)}) == 3
