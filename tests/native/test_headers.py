"""Test that the headers of native/ compile without warnings, alone and together."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.native.compiler import NATIVE, compiler

HEADERS = sorted(str(path.relative_to(NATIVE)) for path in NATIVE.rglob("*.hpp"))


@pytest.mark.slow
@pytest.mark.parametrize("header", HEADERS)
def test_header_compiles_alone(header, tmp_path):
    check([header], tmp_path)


@pytest.mark.slow
def test_headers_compile_in_reverse_order(tmp_path):
    # This detects a missing include, unless a later header contains it.
    check(HEADERS[::-1], tmp_path)


def check(headers, directory):
    source = directory / "all.cpp"
    source.write_text("".join(f'#include "{header}"\n' for header in headers))
    command = [*compiler(), "-fsyntax-only", "-Wall", "-Wextra", "-Werror", source]
    compiled = subprocess.run(command, capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr


def test_lines_have_at_most_100_columns():
    generated = NATIVE / "scanning" / "named_programs.hpp"
    paths = [path for path in NATIVE.parent.rglob("*") if path.suffix in (".hpp", ".pyx", ".pxd")]
    paths += Path(__file__).parent.glob("*.[ch]pp")
    for path in {*paths} - {generated}:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert len(line) <= 100, f"{path}, line {number}"


def test_no_header_includes_python():
    for header in HEADERS:
        assert "Python.h" not in (NATIVE / header).read_text(encoding="utf-8"), header
