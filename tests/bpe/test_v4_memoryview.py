"""v4: words are split for a continued vocabulary, and 2 GiB of words or more are rejected."""

import random

import numpy as np
import pytest

from cs336_basics import TRAINERS
from cs336_basics.bpe.rules import Rules
from cs336_basics.bpe.starting_vocabulary import StartingVocabulary
from cs336_basics.counting import WordCounts
from tests.bpe.test_starting_vocabulary import edited_vocabulary, imported_vocabulary
from tests.errors import rejects

if not TRAINERS["memoryview"].is_built:
    pytest.skip("the memoryview trainer is not built", allow_module_level=True)


@pytest.mark.parametrize("vocabulary", [imported_vocabulary(), edited_vocabulary(3)])
def test_compiled_splitting_equals_the_starting_vocabulary(vocabulary):
    from cs336_basics.bpe.v4_memoryview import split_words

    rng = random.Random(7)
    words = {bytes(rng.choices(b"abcd", k=rng.randint(0, 12))): 1 for _ in range(500)}
    # Words of more than 64 bytes are merged by another method.
    words |= {bytes(rng.choices(b"abcd", k=rng.randint(60, 150))): 1 for _ in range(50)}
    words |= {b"abcd" * 5000: 1, b"": 1}
    start = StartingVocabulary(vocabulary)
    symbols, lengths = split_words(WordCounts.from_mapping(words), start)
    ends = np.cumsum(lengths)
    for word, end, length in zip(words, ends.tolist(), lengths.tolist(), strict=True):
        if len(word) < 1000:
            found = tuple(start.symbols[i] for i in symbols[end - length : end])
            assert found == start.split(word)
    assert b"".join(start.symbols[i] for i in symbols) == b"".join(words)


def test_words_of_2_gib_or_more_are_rejected():
    from cs336_basics.bpe.v4_memoryview import MergeLoop

    class Long:
        data = np.broadcast_to(np.uint8(97), 2**31)  # uses almost no memory

    with rejects(None, "2,147,483,648"):
        MergeLoop(Long, Rules(1))
