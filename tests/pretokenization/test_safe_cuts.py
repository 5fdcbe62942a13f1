"""Splitting both sides of a safe cut gives the same result as splitting the whole text."""

import pytest
from hypothesis import given

from cs336_basics.pretokenization.splitter import Splitter
from tests.pretokenization.trouble import data_strategy, special_strategy, split


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k"])
@given(data=data_strategy, special_tokens=special_strategy, more=data_strategy)
def test_the_last_cut_of_a_stream_is_safe_for_any_continuation(pattern, data, special_tokens, more):
    splitter = Splitter(pattern, special_tokens)
    cut = splitter.safe_cuts.last(data, 0)
    if cut is None:
        return
    assert 0 < cut <= len(data)
    both = split(data[:cut], splitter) + split(data[cut:] + more, splitter)
    assert both == split(data + more, splitter)
