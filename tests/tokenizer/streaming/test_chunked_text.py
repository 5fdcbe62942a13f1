"""encode_iterable gives the ids of the whole text for any chunks, in bounded memory."""

from __future__ import annotations

import functools
import io
import tempfile
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cs336_basics.bpe import train_bpe
from cs336_basics.pretokenization.safe_cuts import SafeCuts
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.streaming import chunked_text
from tests.texts import long_text
from tests.tokenizer.examples import (
    END,
    SPECIALS,
    TRAINING_TEXT,
    data_file,
    small_tokenizer,
    tricky_texts,
)

PATTERNS = ["gpt2", "cl100k", r"\w+|\W", r"\s\S+|\S|\s"]
# Each set allows cuts in different places.
SPECIAL_SETS = [(), (END,), tuple(SPECIALS), ("a b", "b a"), ("\ufffd",), (" ", "\n"), ("x y z",)]

OTHER_CORPORA = ["owt_sample.txt", "code_python.txt", "multi_zh_wiki.txt", "multi_emoji.txt"]


@pytest.fixture
def eager(monkeypatch):
    """Cut texts as often as possible. By default, short texts are never cut."""
    monkeypatch.setattr(chunked_text, "READ_AHEAD", 1)
    monkeypatch.setattr(chunked_text, "SLICE_SIZE", 7)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("special_tokens", SPECIAL_SETS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_any_two_chunks_give_the_ids_of_the_whole_text(pattern, special_tokens):
    tokenizer = small_tokenizer(special_tokens, pattern)
    # Special tokens prevent cuts near the end, so a short text would not be cut several times.
    text = f"a b a  b{END}{END} \n\n\n it's\r\n x y z.\n x y \u3000\u00a0 猫\n猫 🎉 <|endof a  "
    text = f"{text}\ufffd y\u3000  b" * 2
    expected = tokenizer.encode(text)
    for position in range(len(text) + 1):
        assert list(tokenizer.encode_iterable([text[:position], text[position:]])) == expected


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


@pytest.mark.parametrize("size", [1, 3, 100, 5000, 10**6])
def test_the_default_buffer_gives_the_ids_of_the_whole_text(size):
    tokenizer = small_tokenizer()
    text = TRAINING_TEXT * 10 + END + TRAINING_TEXT.replace(" ", "") * 10
    chunks = (text[start : start + size] for start in range(0, len(text), size))
    assert list(tokenizer.encode_iterable(chunks)) == tokenizer.encode(text)


def test_empty_text_gives_no_ids():
    tokenizer = small_tokenizer()
    assert list(tokenizer.encode_iterable([])) == []
    assert list(tokenizer.encode_iterable(["", "", ""])) == []


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
    # There are enough different words to fill the cache, which is then emptied.
    peaks = [
        extra_memory(tokenizer, (f"the cat number{i} ate\nrat{i}. " for i in range(length)))
        for length in (6_000, 24_000)
    ]
    assert peaks[1] < 1_000_000
    assert peaks[1] < peaks[0] * 1.2


def test_one_huge_chunk_is_not_copied():
    text = TRAINING_TEXT * 1500
    assert len(text) > 1_000_000
    assert extra_memory(small_tokenizer(), [text]) < 1_000_000


@functools.cache
def trained_on_long_text() -> Tokenizer:
    """Return a tokenizer with 3,000 tokens from many scripts."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "text.txt")
        path.write_text(long_text(0, 300_000), encoding="utf-8", newline="")
        return Tokenizer(*train_bpe(path, 3000, [END], num_workers=1), [END])


def test_a_stream_of_2_mb_takes_less_than_1_mb_of_memory():
    text = long_text(1, 400_000)
    stream = (text[i : i + 1000] for _ in range(5) for i in range(0, len(text), 1000))
    assert extra_memory(trained_on_long_text(), stream) < 1_000_000


@pytest.mark.parametrize(
    "name",
    ["tinystories_train.txt", *(pytest.param(n, marks=pytest.mark.slow) for n in OTHER_CORPORA)],
)
def test_a_file_of_5_mb_takes_less_than_1_mb_of_memory_with_the_vocabulary_of_gpt2(name):
    vocab, merges = data_file("gpt2_vocab.json"), data_file("gpt2_merges.txt")
    tokenizer = Tokenizer.from_files(vocab, merges, [END])
    with open(data_file(name), "rb") as file:
        data = file.read(5_000_000)
    with io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="replace", newline="") as file:
        assert extra_memory(tokenizer, file) < 1_000_000
