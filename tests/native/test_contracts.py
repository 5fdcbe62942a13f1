"""Test the contracts of the C++ code with the sanitizers for addresses, overflows and threads."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.native.compiler import compiler

HERE = Path(__file__).parent

OPTIONS = ["-O0", "-g", "-rdynamic", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


@pytest.fixture(scope="module", params=[None, pytest.param("clang++", marks=pytest.mark.slow)])
def sanitized(request, tmp_path_factory):
    """Return a compiler command that enables the sanitizers."""
    command = [*compiler(request.param), *OPTIONS]
    empty = tmp_path_factory.mktemp("sanitized") / "empty.cpp"
    empty.write_text("int main() {}")
    tried = subprocess.run([*command, empty, "-o", empty.with_suffix("")], capture_output=True)
    if tried.returncode:
        pytest.skip("this compiler has no sanitizers")
    return command


# The contract of the vocabulary reads damaged files, and compiles in the shortest time.
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("counting", "encoder", "inference")]


@pytest.mark.parametrize("name", ["vocabulary", *SLOW])
def test_contract_holds_under_sanitizers(sanitized, tmp_path, name):
    program = tmp_path / name
    source = HERE / f"{name}_contract.cpp"
    subprocess.run([*sanitized, "-Wall", "-Wextra", source, "-o", program, "-ldl"], check=True)
    done = subprocess.run([program, tmp_path], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    if name == "counting":  # each process has its own seed
        assert len({subprocess.check_output([program, "--seed"]) for _ in range(3)}) == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["counting", "encoder", "inference"])
def test_contract_has_no_races(tmp_path, name):
    program = tmp_path / name
    source = HERE / f"{name}_contract.cpp"
    options = ["-O1", "-g", "-rdynamic", "-fsanitize=thread", source, "-o", program, "-ldl"]
    if subprocess.run([*compiler(), *options], capture_output=True).returncode:
        pytest.skip("this compiler has no sanitizer for threads")
    done = subprocess.run([program, tmp_path], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
