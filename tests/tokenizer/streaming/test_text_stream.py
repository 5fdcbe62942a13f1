"""encode_iterable gives the ids of the whole text for any chunks, in bounded memory."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cs336_basics.pretokenization.safe_cuts import SafeCuts
from cs336_basics.tokenizer.streaming import text_stream
from tests.tokenizer.examples import (
    END,
    SPECIALS,
    TRAINING_TEXT,
    small_tokenizer,
    tricky_texts,
)

PATTERNS = ["gpt2", "cl100k", r"\w+|\W", r"\s\S+|\S|\s"]
# Each set allows cuts in different places.
SPECIAL_SETS = [(), (END,), tuple(SPECIALS), ("a b", "b a"), ("\ufffd",), (" ", "\n"), ("x y z",)]


@pytest.fixture
def eager(monkeypatch):
    """Cut texts as often as possible. By default, short texts are never cut."""
    monkeypatch.setattr(text_stream, "READ_AHEAD", 1)
    monkeypatch.setattr(text_stream, "SLICE_SIZE", 7)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("special_tokens", SPECIAL_SETS)
@pytest.mark.parametrize("pattern", PATTERNS)
@given(
    text=st.lists(tricky_texts, max_size=4).map("".join),
    positions=st.lists(st.integers(0, 200), max_size=6),
)
@settings(max_examples=20, deadline=None)
@example(text=TRAINING_TEXT, positions=[])
def test_any_chunks_give_the_ids_of_the_whole_text(pattern, special_tokens, text, positions):
    tokenizer = small_tokenizer(special_tokens, pattern)
    expected = tokenizer.encode(text)
    ends = [0, *sorted(min(position, len(text)) for position in positions), len(text)]
    chunks = [text[start:end] for start, end in pairwise(ends)]
    assert list(tokenizer.encode_iterable(chunks)) == expected
    assert list(tokenizer.encode_iterable(text)) == expected  # one character per chunk
    assert list(tokenizer.encode_iterable(text.splitlines(keepends=True))) == expected


def test_chunks_are_read_as_they_are_needed():
    read = 0

    def stream():
        nonlocal read
        for _ in range(1000):
            read += 1
            yield "the cat ate the rat. " * 100

    ids = small_tokenizer().encode_iterable(stream())
    assert read == 0
    next(ids)
    assert read <= 2


@pytest.mark.parametrize("chunk_size", [1, 50, 10**6])
@pytest.mark.parametrize("unit", ["x", " ", "\n", "<|endoftext"])
def test_a_text_without_a_safe_cut_is_searched_once(monkeypatch, unit, chunk_size):
    searched = 0
    last = SafeCuts.last

    def counting_last(self, data, start):
        nonlocal searched
        searched += len(data)
        return last(self, data, start)

    monkeypatch.setattr(SafeCuts, "last", counting_last)
    text = (unit * 60_000)[:60_000]
    chunks = (text[start : start + chunk_size] for start in range(0, len(text), chunk_size))
    tokenizer = small_tokenizer()
    assert tokenizer.decode(tokenizer.encode_iterable(chunks)) == text
    assert 0 < searched < 2 * len(text)


def extra_memory(tokenizer, stream) -> int:
    """Read the ids of a stream, and return the peak memory in bytes."""
    tracemalloc.start()
    try:
        for _ in tokenizer.encode_iterable(stream):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_text():
    tokenizer = small_tokenizer()
    text = TRAINING_TEXT * 1500
    assert len(text) > 1_000_000
    assert extra_memory(tokenizer, [text]) < 1_000_000
    # There are enough different words to fill the cache, which is then emptied.
    peaks = [
        extra_memory(tokenizer, (f"the cat number{i} ate\nrat{i}. " for i in range(length)))
        for length in (6_000, 24_000)
    ]
    assert peaks[1] < 1_000_000
    assert peaks[1] < peaks[0] * 1.2
