"""The peak memory of a process is measured."""

import pytest

from tests.processes import run_python


def test_the_peak_grows_with_an_allocation():
    pytest.importorskip("resource")
    # A new process is small, so a small block is enough.
    run = run_python(
        "from cs336_basics._support.memory import peak_memory\n"
        "before = peak_memory()\n"
        "block = bytearray(b'x') * (2 * before)\n"
        "print(before, len(block), peak_memory())"
    )
    before, size, after = map(int, run.stdout.split())
    assert after > before + size // 4
