"""The peak memory of a process is measured."""

import pytest

from cs336_basics._support.memory import peak_memory


def test_the_peak_grows_with_an_allocation():
    pytest.importorskip("resource")
    before = peak_memory()
    block = bytearray(b"x") * (2 * before)
    assert peak_memory() > before + len(block) // 4
