"""What is said where memory does not suffice."""

import pytest

from cs336_basics._support.memory import holding, peak_memory


def test_the_innermost_block_says_what_was_held():
    with (
        pytest.raises(MemoryError, match="holding 5 words"),
        holding(lambda: "a corpus"),
        holding(lambda: "5 words"),
    ):
        raise MemoryError("std::bad_alloc")


def test_other_errors_pass_unchanged():
    with pytest.raises(ValueError, match="x"), holding(lambda: pytest.fail("is not asked")):
        raise ValueError("x")


def test_the_peak_grows_with_what_is_held():
    pytest.importorskip("resource")
    before = peak_memory()
    block = bytearray(b"x") * (2 * before)
    assert peak_memory() > before + len(block) // 4
