"""The compiled loops that load a tokenizer, held to the readable ones in Python."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cs336_basics.tokenizer import vocabulary
from cs336_basics.tokenizer.vocabulary import MAX_ID

_loading = pytest.importorskip("cs336_basics.tokenizer._loading")


def result_or_error(function, *arguments):
    try:
        return function(*arguments)
    except (TypeError, ValueError) as error:
        return type(error)


PARTS = st.sampled_from([b"", b"a", b"b", b"ab", b"aa", b"ba", b"aab", "a", 1, np.bytes_(b"a")])
MERGES = st.lists(st.tuples(PARTS, PARTS) | st.lists(PARTS, max_size=3) | st.just("ab"), max_size=4)
TOKEN_IDS = {b"a": 0, b"b": MAX_ID, b"ab": 3, b"aa": 2, b"aab": 7}


@given(MERGES)
@example([(b"a", b"b"), (b"aa", b"b"), [b"a", b"ab"]])
def test_compiled_ids_of_merges_equal_those_of_python(merges):
    found = _loading.index_merges(merges, TOKEN_IDS)
    expected = result_or_error(vocabulary._index_merges_in_python, merges, TOKEN_IDS)
    if found is not None and not vocabulary._has_repeated_pairs(found):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    else:
        of_a_subclass = any(type(token) is np.bytes_ for merge in merges for token in merge)
        assert of_a_subclass or expected in (TypeError, ValueError)


@given(st.lists(st.tuples(st.integers(0, MAX_ID), st.integers(0, MAX_ID)) | st.just((1, MAX_ID))))
def test_repeated_pairs_are_found_at_any_distance(pairs):
    ids = np.array([(left, right, 0) for left, right in pairs], np.uint32).reshape(-1, 3)
    assert vocabulary._has_repeated_pairs(ids) == (len(set(pairs)) < len(pairs))
