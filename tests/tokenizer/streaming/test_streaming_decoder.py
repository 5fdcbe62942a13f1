"""StreamingDecoder returns the text of all ids and never splits a character."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics.tokenizer import StreamingDecoder, Tokenizer
from tests.errors import rejects
from tests.tokenizer.examples import BYTES


@given(st.binary(max_size=40) | st.text(max_size=20).map(str.encode))
def test_streaming_gives_the_same_text_in_whole_characters(data):
    decoder = StreamingDecoder(Tokenizer(BYTES, []))
    parts = [decoder.push(byte) for byte in data]
    text = data.decode("utf-8", errors="replace")
    assert "".join(parts) + decoder.finish() == text
    # The decoder must be reusable.
    assert decoder.push(97) == "a"
    assert decoder.finish() == ""


def test_streaming_holds_back_only_an_incomplete_character():
    decoder = StreamingDecoder(
        Tokenizer({0: b"a", 1: b"\xf0\x9f", 2: b"\x8e\x89!", 3: b"\xc3"}, [])
    )
    assert [decoder.push(i) for i in (0, 1, 2, 3)] == ["a", "", "🎉!", ""]
    assert decoder.finish() == "\ufffd"


def test_streaming_continues_after_a_bad_id():
    decoder = StreamingDecoder(Tokenizer(BYTES, []))
    assert decoder.push(0xC3) == ""
    with rejects(None, "id 256"):
        decoder.push(256)
    with rejects("ids", kind=InputTypeError):
        decoder.push(1.5)
    assert decoder.push(0xA9) == "é"


@given(st.binary(max_size=20))
def test_a_strict_stream_reports_the_offset_in_the_whole_text(data):
    decoder = StreamingDecoder(Tokenizer(BYTES, []), errors="strict")

    def decode(data):
        for byte in data:
            decoder.push(byte)
        decoder.finish()

    try:
        data.decode()
    except UnicodeDecodeError as error:
        with rejects(None, f"{data[error.start]:#04x}", error.start):
            decode(data)
    decoder = StreamingDecoder(Tokenizer(BYTES, []), errors="strict")
    decode("é".encode())
    with rejects(None, "0xe4", 3):
        decode("aé".encode() + b"\xe4\xb8")
    with rejects(None, "0xff", 1):
        decode(b"a\xff")


@given(
    st.lists(st.integers(-2, 300), max_size=12), st.sampled_from(["replace", "ignore", "strict"])
)
def test_the_streaming_decoder_treats_errors_like_decode(ids, errors):
    tokenizer = Tokenizer(BYTES, [])
    decoder = StreamingDecoder(tokenizer, errors=errors)

    def stream():
        return "".join(map(decoder.push, ids)) + decoder.finish()

    try:
        expected = tokenizer.decode(ids, errors=errors)
    except ValueError:
        with pytest.raises(InputError):
            stream()
    else:
        assert stream() == expected
        assert stream() == expected  # the decoder can be reused


def test_a_tokenizer_may_override_decoding():
    class Upper(Tokenizer):
        def decode_bytes(self, ids, errors=None, **options):
            return super().decode_bytes(ids, errors, **options).upper()

    tokenizer = Upper(BYTES, [])
    tokenizer.decode([97])
    assert StreamingDecoder(tokenizer).push(97) == "A"


def test_a_token_that_is_added_later_is_decoded():
    tokenizer = Tokenizer(BYTES, [])
    decoder = StreamingDecoder(tokenizer)
    assert decoder.push(97) == "a"
    [token_id] = tokenizer.add_special_tokens(["<é>"])
    assert [decoder.push(token_id), decoder.push(0xC3), decoder.push(token_id)] == [
        "<é>", "", "\ufffd<é>",
    ]  # fmt: skip
    assert decoder.finish() == ""
