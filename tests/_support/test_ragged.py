"""Items of different lengths, against slices and loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs336_basics._support.ragged import items_at, offsets_of, repeated

LENGTHS = st.lists(st.integers(0, 4), max_size=8)


@given(LENGTHS)
def test_offsets_are_the_starts_and_the_total(lengths):
    offsets = offsets_of(np.array(lengths, np.int64))
    assert offsets.tolist() == [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    assert offsets.dtype == np.int64


@given(LENGTHS)
def test_a_value_is_repeated_for_each_element(lengths):
    found = repeated(np.arange(len(lengths)), np.array(lengths, np.int64))
    assert found.tolist() == [i for i, length in enumerate(lengths) for _ in range(length)]


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint8"])
@given(st.data())
def test_items_are_slices_which_may_overlap(dtype, data):
    numbers = data.draw(st.lists(st.integers(0, 255), max_size=9))
    place = st.tuples(st.integers(0, len(numbers)), st.integers(0, len(numbers))).map(sorted)
    places = data.draw(st.lists(place, max_size=6))
    starts = np.array([start for start, _ in places], np.int64)
    lengths = np.array([end - start for start, end in places], np.int64)
    found = items_at(np.array(numbers, dtype), starts, lengths)
    assert found.tolist() == [n for start, end in places for n in numbers[start:end]]
    assert found.dtype == dtype
