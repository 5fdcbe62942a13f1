"""The machine's memory and the peak memory of a process are measured."""

import pytest

from cs336_basics._support.memory import peak_memory, physical_memory
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


def test_a_process_fits_into_the_machine():
    memory = physical_memory()
    if memory is None:
        pytest.skip("the system does not report its memory")
    assert memory > peak_memory()
