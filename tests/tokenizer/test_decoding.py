"""Decoding sequences and single ids, and rejecting invalid ids."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics._support.errors import InputTypeError
from cs336_basics.tokenizer import StreamingDecoder, Tokenizer
from tests.errors import rejects
from tests.tokenizer.examples import BYTES, END, small_tokenizer


@pytest.mark.parametrize("unknown", [-1, 5000, 2**31, 2**32, 2**32 + 5, 10**30, np.int32(-7)])
def test_the_error_names_an_unknown_id(unknown):
    tokenizer = small_tokenizer()
    last = tokenizer.vocab_size - 1
    assert tokenizer.decode([last]) == END
    with rejects(None, f"id {unknown}", last):
        tokenizer.decode([97, unknown])


@pytest.mark.parametrize(
    "ids",
    [
        [True],
        [np.bool_(True)],
        torch.tensor([True, False]),
        [1.0],
        [None],
        ["1"],
        "97",
        b"a",
        97,
        None,
        np.array([1.0]),
        np.array([True]),
        [np.float32(1)],
    ],
)
def test_ids_that_are_not_integers_are_rejected(ids):
    for errors in (None, "replace", "strict"):
        with rejects("ids", kind=InputTypeError):
            small_tokenizer().decode(ids, errors)


def test_a_masked_id_is_rejected():
    tokenizer = small_tokenizer()
    for dtype in (np.uint16, np.uint32, np.int64):
        with rejects("ids", "None", kind=InputTypeError):
            tokenizer.decode(np.ma.array([65, 66], dtype, mask=[False, True]))
        assert tokenizer.decode(np.ma.array([65, 66], dtype)) == "AB"


@pytest.mark.parametrize("shape", [(2, 1), (1, 2), (1, 1)])
def test_a_two_dimensional_tensor_is_rejected(shape):
    torch = pytest.importorskip("torch")
    tokenizer = Tokenizer(BYTES, [])
    ids = torch.full(shape, 97)
    assert tokenizer.decode(ids.reshape(-1)) == "a" * ids.numel()
    with rejects("ids", shape[0], shape[1]):
        tokenizer.decode(ids)


# ------------------------------------------------------------------ errors=


@pytest.mark.parametrize("make", [list, np.array, iter])
@pytest.mark.parametrize(
    ("errors", "text"), [("replace", "a\ufffdb\ufffd"), ("ignore", "ab")], ids=["replace", "ignore"]
)
def test_unknown_ids_are_replaced_or_ignored(make, errors, text):
    tokenizer = small_tokenizer()
    ids = [97, 5000, 98, -1]
    assert tokenizer.decode(make(ids), errors=errors) == text
    assert tokenizer.decode_bytes(make(ids), errors=errors) == text.encode()
    assert tokenizer.decode_batch([make(ids), [97]], errors=errors) == [text, "a"]


@given(st.binary(max_size=40), st.sampled_from([None, "replace", "ignore", "strict"]))
def test_errors_treats_bytes_like_bytes_decode(data, errors):
    tokenizer = Tokenizer(BYTES, [])
    try:
        expected = data.decode("utf-8", errors or "replace")
    except UnicodeDecodeError as error:
        with rejects(None, f"{data[error.start]:#04x} at offset {error.start}"):
            tokenizer.decode(list(data), errors=errors)
    else:
        assert tokenizer.decode(list(data), errors=errors) == expected
    assert tokenizer.decode_bytes(list(data), errors=errors) == data


def test_an_unknown_value_of_errors_is_rejected():
    tokenizer = small_tokenizer()
    for decode in (tokenizer.decode, tokenizer.decode_bytes, tokenizer.decode_batch):
        with rejects("errors", "'backslash'"):
            decode([], errors="backslash")
    with rejects("errors", "'backslash'"):
        StreamingDecoder(tokenizer, errors="backslash")


# ------------------------------------------------------------------ decoding


@given(ids=st.lists(st.integers(0, 300), max_size=50))
@settings(max_examples=100, deadline=None)
def test_every_kind_of_sequence_is_decoded(ids):
    tokenizer = small_tokenizer()
    ids = [i % tokenizer.vocab_size for i in ids]
    data = b"".join(tokenizer.vocab[i] for i in ids)
    kinds = [ids, tuple(ids), iter(ids), np.array(ids, np.uint16), np.array(ids, np.int64)]
    kinds += [np.array(ids, np.uint32), np.array(ids, ">u2"), np.repeat(np.array(ids, int), 2)[::2]]
    for kind in kinds:
        assert tokenizer.decode_bytes(kind) == data
    assert tokenizer.decode(ids) == data.decode("utf-8", errors="replace")
    decoder = StreamingDecoder(tokenizer)
    streamed = "".join(map(decoder.push, ids)) + decoder.finish()
    assert streamed == tokenizer.decode(ids)


@pytest.mark.parametrize("dtype", [list, np.uint16, np.int64, np.dtype(">i4"), torch.tensor])
def test_special_tokens_are_left_out_of_every_kind_of_sequence(dtype):
    tokenizer = small_tokenizer()
    end = tokenizer.special_token_id(END)
    ids = [end, 97, end, end, 98, 0xE7, end]
    given = ids if dtype is list else torch.tensor(ids)
    if dtype not in (list, torch.tensor):
        given = np.array(ids, dtype)
    for errors in (None, "replace"):
        text = tokenizer.decode(given, errors, skip_special_tokens=True)
        assert text == tokenizer.decode([97, 98, 0xE7], errors)
    assert tokenizer.decode_bytes(given[:0], skip_special_tokens=True) == b""
    (new,) = tokenizer.add_special_tokens(["<new>"])
    assert tokenizer.decode([new, 97, end], skip_special_tokens=True) == "a"
    with rejects(None, 9999):
        tokenizer.decode([end, 9999], skip_special_tokens=True)
    with pytest.raises(InputTypeError):
        tokenizer.decode(np.array([1.5]), skip_special_tokens=True)
