"""Chunks of any text give the ids of the whole text, in bounded memory."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cs336_basics import Tokenizer
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics.splitting.safe_cuts import SafeCuts
from cs336_basics.tokenizer import IncrementalEncoder
from cs336_basics.tokenizer.streaming import chunk_encoder
from tests.errors import rejects
from tests.texts import long_text
from tests.tokenizer.examples import (
    END,
    SPECIALS,
    TRAINING_TEXT,
    small_tokenizer,
    tricky_texts,
)

EVERY_PATTERN = ["gpt2", "cl100k", r"\w+|\W"]


def fed(encoder, chunks):
    ids = []
    for chunk in chunks:
        ids += encoder.feed(chunk)
    return ids + encoder.finish()


@settings(max_examples=40, deadline=None)
@given(tricky_texts, st.integers(0, 200), st.integers(0, 200))
def test_str_and_bytes_may_be_mixed(text, first, second):
    tokenizer = small_tokenizer()
    first, second = sorted((min(first, len(text)), min(second, len(text))))
    middle = text[first:second].encode()
    chunks = [text[:first], middle[:1], middle[1:], text[second:]]
    assert fed(IncrementalEncoder(tokenizer), chunks) == tokenizer.encode(text)


def streams(tokenizer, text, errors, **special):
    """Yield functions that encode a text one character or one byte at a time."""
    data = text.encode()

    def feed(chunks):
        return fed(IncrementalEncoder(tokenizer, errors=errors, **special), chunks)

    yield lambda: list(tokenizer.encode_iterable(list(text), **special))
    yield lambda: feed([data[i : i + 1] for i in range(len(data))])
    yield lambda: feed(text)


CHOICES = [None, "all", [], [END], ["a b"], ["\n\n", END]]


@settings(max_examples=230, deadline=None)
@given(
    tricky_texts,
    st.sampled_from(EVERY_PATTERN),
    st.sampled_from(["native", "python"]),
    st.sampled_from(["replace", "strict", "bytes"]),
    st.sampled_from(CHOICES),
    st.sampled_from([(), "all", [END], ["a b", "\n\n"]]),
)
def test_ids_and_rejected_special_tokens_are_those_of_the_whole_text(
    text, pattern, backend, errors, allowed, disallowed
):
    tokenizer = small_tokenizer((END, END + END, "a b", "\n\n"), pattern, backend=backend)
    special = {"allowed_special": allowed, "disallowed_special": disallowed}
    try:
        expected, raised = tokenizer.encode(text, **special), None
    except InputError as error:
        expected, raised = None, error
    for encode in streams(tokenizer, text, errors, **special):
        if raised is None:
            assert encode() == expected
        else:
            with rejects(raised.argument, raised):
                encode()


def test_ids_are_returned_early_and_little_text_is_buffered():
    tokenizer = small_tokenizer()
    encoder = IncrementalEncoder(tokenizer)
    text = long_text(4, 20_000).replace("\ufffd", "")
    num_ids = 0
    for character in "the cat sat " * 1000:
        num_ids += len(encoder.feed(character))
    assert num_ids >= len(tokenizer.encode("the cat sat " * 990))
    encoder.finish()
    assert fed(encoder, [text[i : i + 100] for i in range(0, len(text), 100)]) == tokenizer.encode(
        text
    )


@pytest.mark.parametrize("cut", range(12))
def test_bytes_that_are_not_utf8_are_replaced_as_in_the_whole_text(cut):
    data = b"a \xe4\xb8 b\xff\xf0\x9f\x8e"
    tokenizer = small_tokenizer()
    encoder = IncrementalEncoder(tokenizer)
    with pytest.warns(UserWarning, match=r"UTF-8.*\b3\b"):
        ids = fed(encoder, [data[:cut], data[cut:]])
    assert ids == tokenizer.encode(data.decode(errors="replace"))


def test_strict_reports_the_offset_in_the_whole_text_and_resets():
    encoder = IncrementalEncoder(small_tokenizer(), errors="strict")
    assert encoder.feed(b"a " * 500)
    with rejects(None, "0xff", "1,001", "UTF-8"):
        fed(encoder, [b"b\xff"])
    assert fed(encoder, ["the cat"]) == small_tokenizer().encode("the cat")
    assert encoder.feed(b"a " * 500)
    encoder.feed("é".encode()[:1])
    with rejects(None, "0xc3", "1,000", "UTF-8"):
        fed(encoder, [b"x"])
    encoder.feed(b"b\xc3")
    with rejects(None, "0xc3", 1, "UTF-8"):
        encoder.finish()
    chunks = [bytes([byte]) for byte in "naïve 🎉 中".encode()]
    assert fed(encoder, chunks) == small_tokenizer().encode("naïve 🎉 中")


def test_rejected_input_keeps_the_state():
    encoder = IncrementalEncoder(small_tokenizer(), errors="strict")
    encoder.feed("the")
    with rejects(None, "U+D800", 4):
        encoder.feed("x\ud800y")
    with rejects("text", kind=InputTypeError):
        encoder.feed(5)
    assert encoder.finish() == small_tokenizer().encode("the")


def test_the_error_names_the_position_of_an_absent_byte():
    encoder = IncrementalEncoder(Tokenizer({0: b"a", 1: b" "}, []))
    with rejects(None, "0x62", "'b'", 201):
        encoder.feed("a " * 100 + "ab a a a a a")
    assert fed(encoder, ["a", "a"]) == [0, 0]


@pytest.mark.filterwarnings("error")
def test_an_encoder_can_be_reused_after_a_warning_raises():
    encoder = IncrementalEncoder(small_tokenizer())
    with pytest.raises(UserWarning, match=r"UTF-8.*\b1\b"):
        fed(encoder, [b"the \xff cat"])
    assert fed(encoder, ["the cat"]) == small_tokenizer().encode("the cat")


# ------------------------------------------------------------------ encode_iterable

PATTERNS = ["gpt2", "cl100k", r"\w+|\W", r"\s\S+|\S|\s"]
# Each set allows cuts in different places.
SPECIAL_SETS = [(), (END,), tuple(SPECIALS), ("a b", "b a"), ("\ufffd",), (" ", "\n"), ("x y z",)]


@pytest.fixture
def eager(monkeypatch):
    """Cut texts as often as possible. By default, short texts are never cut."""
    monkeypatch.setattr(chunk_encoder, "READ_AHEAD", 1)
    monkeypatch.setattr(chunk_encoder, "SLICE_SIZE", 7)


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
