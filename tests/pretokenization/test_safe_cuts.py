"""Safe cuts: text on both sides is split as in the whole."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs336_basics.pretokenization.safe_cuts import SafeCuts
from cs336_basics.pretokenization.splitter import Splitter

# Difficult bytes: special tokens that overlap or hold spaces, every kind of white space,
# characters of one to four bytes, bytes that are not valid UTF-8.
TROUBLE = [
    b"a", b"'s", b"'", b" ", b"  ", b"\n", b"\r\n", b"\t", b".", b"12", b"\x00", b"\x1c", b"\x0c",
    "é".encode(), "好".encode(), "🙂".encode(), "\u00a0".encode(), "\u3000".encode(),
    "\u2009".encode(), "\u0085".encode(), "\ufffd".encode(), b"\xff", b"\xe2\x80", b"\x80", b"\xf0",
    b"<|x|>", b"<|x|> <|x|>", b"|> <", b"x x", b"a a", b"ab", b"bc",
]  # fmt: skip

SPECIAL = ["<|x|>", "<|x|> <|x|>", "x x", "a a a", "ab", "bc", "é ", " \n", "\n\n", "\ufffd"]

data_strategy = st.lists(st.sampled_from(TROUBLE), max_size=40).map(b"".join)

special_strategy = st.lists(st.sampled_from(SPECIAL), max_size=4, unique=True)


def split(data, splitter):
    """All pre-tokens and special tokens of some bytes, in order."""
    found = []
    for segment, is_special in splitter.split_special_tokens(data.decode("utf-8", "replace")):
        found.extend([(segment, True)] if is_special else
                     [(word, False) for word in splitter.pretokenize(segment)])  # fmt: skip
    return found


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
