"""Every header of native/ compiles alone, without warnings."""

from __future__ import annotations

import subprocess

import pytest

from tests.native.compiler import NATIVE, compiler

HEADERS = sorted(str(path.relative_to(NATIVE)) for path in NATIVE.rglob("*.hpp"))


@pytest.mark.parametrize("header", HEADERS)
def test_header_compiles_alone(header, tmp_path):
    source = tmp_path / "alone.cpp"
    source.write_text(f'#include "{header}"\n')
    command = [*compiler(), "-fsyntax-only", "-Wall", "-Wextra", "-Werror", source]
    compiled = subprocess.run(command, capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr


def test_no_header_includes_python():
    for header in HEADERS:
        assert "Python.h" not in (NATIVE / header).read_text(encoding="utf-8"), header
