"""Safe cuts: text on both sides is split as in the whole."""

import random

import pytest
from hypothesis import given

from cs336_basics.pretokenization.safe_cuts import SafeCuts
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


def test_safe_cuts_are_the_same_among_many_tokens():
    rng = random.Random(11)
    for _ in range(200):
        tokens = list({"".join(rng.choices("ab <", k=rng.randint(1, 4))) for _ in range(3)})
        data = "".join(rng.choices("ab< ", k=60)).encode()
        few, many = SafeCuts(tokens), SafeCuts([*tokens, *(f"!{i}" for i in range(40))])
        for start in range(0, 60, 7):
            for find in ("inside_text", "after_special_token"):
                assert getattr(few, find)(data, start, 50) == getattr(many, find)(data, start, 50)
