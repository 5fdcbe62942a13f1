"""Chunks of any text give the ids of the whole text, in bounded memory."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics import Tokenizer
from cs336_basics.tokenizer import IncrementalEncoder
from tests.texts import long_text
from tests.tokenizer.examples import (
    END,
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
        expected, message = tokenizer.encode(text, **special), None
    except ValueError as error:
        expected, message = None, str(error)
    for encode in streams(tokenizer, text, errors, **special):
        if message is None:
            assert encode() == expected
        else:
            with pytest.raises(ValueError, match=re.escape(message)):
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
    with pytest.warns(UserWarning, match="the text is not all UTF-8: 3 invalid sequences"):
        ids = fed(encoder, [data[:cut], data[cut:]])
    assert ids == tokenizer.encode(data.decode(errors="replace"))


def test_strict_reports_the_offset_in_the_whole_text_and_resets():
    encoder = IncrementalEncoder(small_tokenizer(), errors="strict")
    assert encoder.feed(b"a " * 500)
    with pytest.raises(ValueError, match="byte 0xff at offset 1,001 is not valid UTF-8"):
        fed(encoder, [b"b\xff"])
    assert fed(encoder, ["the cat"]) == small_tokenizer().encode("the cat")
    assert encoder.feed(b"a " * 500)
    encoder.feed("é".encode()[:1])
    with pytest.raises(ValueError, match="byte 0xc3 at offset 1,000 is not valid UTF-8"):
        fed(encoder, [b"x"])
    encoder.feed(b"b\xc3")
    with pytest.raises(ValueError, match="byte 0xc3 at offset 1 is not valid UTF-8"):
        encoder.finish()
    chunks = [bytes([byte]) for byte in "naïve 🎉 中".encode()]
    assert fed(encoder, chunks) == small_tokenizer().encode("naïve 🎉 中")


def test_rejected_input_keeps_the_state():
    encoder = IncrementalEncoder(small_tokenizer())
    encoder.feed("the")
    with pytest.raises(ValueError, match="lone surrogate U\\+D800 at character 1"):
        encoder.feed("x\ud800")
    with pytest.raises(TypeError, match="text must be str or bytes, not int"):
        encoder.feed(5)
    assert encoder.finish() == small_tokenizer().encode("the")


def test_the_error_names_the_position_of_an_absent_byte():
    encoder = IncrementalEncoder(Tokenizer({0: b"a", 1: b" "}, []))
    with pytest.raises(ValueError, match="no token for the byte 0x62 of 'b' at character 201"):
        encoder.feed("a " * 100 + "ab a a a a a")
    assert fed(encoder, ["a", "a"]) == [0, 0]


@pytest.mark.filterwarnings("error")
def test_an_encoder_can_be_reused_after_a_warning_raises():
    encoder = IncrementalEncoder(small_tokenizer())
    with pytest.raises(UserWarning, match="the text is not all UTF-8: 1 invalid sequence"):
        fed(encoder, [b"the \xff cat"])
    assert fed(encoder, ["the cat"]) == small_tokenizer().encode("the cat")
