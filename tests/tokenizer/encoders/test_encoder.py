"""Behavior common to all encoders."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics.tokenizer.encoders.absent_bytes import AbsentByteError, absent_bytes_in
from tests.errors import rejects
from tests.tokenizer.examples import SPECIALS, tricky_texts


@given(text=tricky_texts, texts=st.lists(tricky_texts, max_size=4))
@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("pattern", ["gpt2", r"\w+|[^\w ]"])
def test_arrays_batches_and_documents_have_the_ids_of_encode(make_small, pattern, text, texts):
    tokenizer = make_small(tuple(SPECIALS), pattern)
    for given_text in (text, text.encode()):
        array = tokenizer.encode_array(given_text)
        assert (array.tolist(), array.dtype, array.ndim) == (tokenizer.encode(text), np.uint16, 1)
    batch = tokenizer.encode_batch(texts)
    assert batch == [tokenizer.encode(text) for text in texts]
    encoder, data = tokenizer.encoder, [text.encode() for text in texts]
    for special in (encoder.all_special, frozenset(SPECIALS[:1]), frozenset()):
        ids, lengths = encoder.encode_documents(data, special)
        expected = [encoder.encode(text, special) for text in texts]
        assert ids.tolist() == [token_id for ids_of_text in expected for token_id in ids_of_text]
        assert lengths.tolist() == [len(ids_of_text) for ids_of_text in expected]
    ids, lengths = encoder.encode_documents(data, encoder.all_special)
    assert (ids.dtype, lengths.tolist()) == (np.uint16, [len(of_text) for of_text in batch])
    ids, offsets = tokenizer.encode_batch_array(texts)
    assert (ids.dtype, offsets.dtype, len(offsets)) == (np.uint16, np.int64, len(texts) + 1)
    assert [ids[offsets[i] : offsets[i + 1]].tolist() for i in range(len(texts))] == batch


@pytest.mark.parametrize("pattern", ["gpt2", r"\p{L}+|\s|\S"])
def test_every_method_rejects_an_absent_byte_which_can_be_found(make_incomplete, pattern):
    encoder = make_incomplete({0: b"a", 1: b" "}, [], ["<|>"], pattern=pattern).encoder
    special = encoder.all_special
    text = "a a<|>aé b"  # the special token contains absent bytes, but needs none
    for call in (
        lambda: encoder.encode(text, special),
        lambda: encoder.encode_array(text, special, 1),
        lambda: encoder.encode_array(text.encode(), special, 2),
        lambda: encoder.encode_batch(["a", text, "b"], special, 1),
        lambda: encoder.encode_documents([b"a", text.encode()], special),
    ):
        with rejects(None, "0xc3", kind=AbsentByteError):
            call()
    data = text.encode() + b"\xff"
    assert list(absent_bytes_in(encoder, data, special)) == [
        (0xC3, 7), (0xA9, 8), (ord("b"), 10), (0xFF, 11),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["encode", "encode_array", "encode_with_offsets", "encode_batch"])
def test_the_error_names_the_absent_byte_and_its_character(make_incomplete, name):
    tokenizer = make_incomplete({0: b"a", 1: b" "}, [], ["<|>"])
    text = "a a<|>aé b"
    with rejects(None, "0xc3", "'é'", 7):
        getattr(tokenizer, name)([text] if name == "encode_batch" else text)
    with rejects(None, "0xc3", 7):
        tokenizer.encode_array(text.encode())
