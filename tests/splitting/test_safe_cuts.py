"""Splitting both sides of a safe cut gives the same result as splitting the whole text."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs336_basics.splitting.splitter import Splitter
from cs336_basics.text.cuts import safe_blocks
from tests.splitting.trouble import data_strategy, special_strategy, split


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"\w+|\W+"])
@given(data=data_strategy, special_tokens=special_strategy, block_size=st.integers(1, 30))
def test_blocks_split_like_the_whole(pattern, data, special_tokens, block_size):
    splitter = Splitter(pattern, special_tokens)
    blocks = [data[start : start + block_size] for start in range(0, len(data), block_size)]
    found = list(safe_blocks(blocks, splitter.safe_cuts))
    assert b"".join(found) == data
    assert list(itertools.chain(*(split(block, splitter) for block in found))) == split(
        data, splitter
    )


def test_no_cut_is_inside_a_special_token_that_overlaps_itself():
    splitter = Splitter(r"\b\S+|\s+", ["bab"])  # cuts only after special tokens
    data = b"a word abababa word"
    whole = split(data, splitter)
    for start in range(len(data)):
        cut = splitter.safe_cuts.first(data, start, len(data))
        if cut is not None:
            assert split(data[:cut], splitter) + split(data[cut:], splitter) == whole
