"""Invalid texts: invalid UTF-8, lone surrogates, and arguments of the wrong type."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tokenizer.examples import END, small_tokenizer


@given(data=st.binary(max_size=40) | st.lists(st.sampled_from(
    [b"the", b" cat", b"\xff", b"\xe2\x82", b"\xf0\x9f", b"\xc3(", "猫".encode(), END.encode()]
)).map(b"".join))  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_bytes_that_are_not_utf8_are_replaced(data):
    tokenizer = small_tokenizer()
    expected = tokenizer.encode(data.decode("utf-8", errors="replace"))
    assert tokenizer.encode_array(data).tolist() == expected
    try:
        data.decode()
    except UnicodeDecodeError as error:
        with pytest.raises(ValueError, match=f"offset {error.start} is not valid UTF-8"):
            tokenizer.encode_array(data, errors="strict")
    else:
        assert tokenizer.encode_array(data, errors="strict").tolist() == expected


def test_arguments_of_encode_array_are_checked():
    tokenizer = small_tokenizer()
    with pytest.raises(TypeError, match="int"):
        tokenizer.encode_array(5)
    with pytest.raises(ValueError, match="ignore"):
        tokenizer.encode_array(b"a", errors="ignore")
    with pytest.raises(ValueError, match="num_workers"):
        tokenizer.encode_array("a", num_workers=0)
    with pytest.raises(ValueError, match=r"U\+D800 at character 2"):
        tokenizer.encode_array("ab\ud800")


# ------------------------------------------------------------------ hostile texts


def test_bytes_are_rejected_with_a_hint(make_small):
    with pytest.raises(TypeError, match="decode"):
        make_small().encode(b"the")
    with pytest.raises(TypeError, match="decode"):
        list(make_small().encode_iterable([b"the"]))
    with pytest.raises(TypeError, match="int"):
        make_small().encode(5)


@pytest.mark.parametrize("surrogate", [chr(0xD800), chr(0xDFFF), chr(0xDC80)])
@pytest.mark.parametrize("before", ["", "the 猫 ", "x" * 20_000])
def test_the_error_names_a_lone_surrogate_and_its_position(make_small, surrogate, before):
    text = before + surrogate + " and on"
    message = rf"U\+{ord(surrogate):04X} at character {len(before):,}"
    tokenizer = make_small()
    with pytest.raises(ValueError, match=message):
        tokenizer.encode(text)
    for chunks in ([text], [before, surrogate, " and on"]):
        with pytest.raises(ValueError, match=message):
            list(tokenizer.encode_iterable(chunks))
