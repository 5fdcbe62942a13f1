"""A MemoryError describes the data in memory, and the peak memory is measured."""

import pytest

from cs336_basics._support.memory import holding, peak_memory


def test_the_innermost_description_is_used():
    with (
        pytest.raises(MemoryError, match=r"holding 5 words$"),
        holding(lambda: "a corpus"),
        holding(lambda: "5 words"),
    ):
        raise MemoryError("std::bad_alloc")


def test_the_peak_grows_with_an_allocation():
    pytest.importorskip("resource")
    before = peak_memory()
    block = bytearray(b"x") * (2 * before)
    assert peak_memory() > before + len(block) // 4
