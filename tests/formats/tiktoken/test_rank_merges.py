"""The compiled search for the merges of ranks finds the merges that Python finds."""

from __future__ import annotations

import random
import time

import pytest

from cs336_basics.formats.tiktoken.rank_merges import merges_of_ranks, parts_of
from cs336_basics.tokenizer._vocabulary import rank_splits
from tests.tokenizer.examples import BYTES


def random_tokens(chooser):
    tokens = [*BYTES.values()]
    chooser.shuffle(tokens)
    for _ in range(chooser.randint(1, 60)):
        made = [token for token in tokens if set(token) <= set(b"ab\xc3")]
        token = b"".join(chooser.choices(made, k=chooser.choice([2, 2, 2, 3])))
        if token not in tokens:
            tokens.insert(chooser.randint(0, len(tokens)), token)
    return tokens


def test_compiled_splits_are_the_parts_in_python():
    chooser = random.Random(7)
    for _ in range(200):
        tokens = random_tokens(chooser)
        ranks = {token: 3 * rank for rank, token in enumerate(tokens)}
        found = [parts_of(token, ranks) for token in tokens]
        expected = [len(parts[0]) if len(parts) == 2 else 0 for parts in found]
        assert rank_splits(tokens) == expected
        merges = [tuple(parts) for parts in found if len(parts) == 2]
        assert merges_of_ranks(ranks) == merges


def test_a_long_token_takes_little_time():
    tokens = [*BYTES.values(), b"aa", b"aaaa", b"a" * 200_000, b"ab" * 50_000]
    start = time.process_time()
    assert rank_splits(tokens)[-2:] == [0, 0]
    assert time.process_time() - start < 5


@pytest.mark.parametrize("tokens", [[b"a", b"a"], [b""]])
def test_repeated_and_empty_tokens_are_refused(tokens):
    with pytest.raises(ValueError, match="different"):
        rank_splits(tokens)
