"""Behavior common to all encoders."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics.tokenizer.encoders.encoder import AbsentByteError
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


@pytest.mark.parametrize("pattern", ["gpt2", r"\p{L}+|\s"])
def test_every_method_reports_the_same_offset_of_an_absent_byte(make, pattern):
    encoder = make({0: b"a", 1: b" "}, [], ["<|>"], pattern=pattern).encoder
    special = encoder.all_special
    text = "a a<|>aé b"  # 'é' comes after the special token
    calls = {
        "encode": lambda: encoder.encode(text, special),
        "encode_array": lambda: encoder.encode_array(text, special, 1),
        "encode_array of bytes": lambda: encoder.encode_array(text.encode(), special, 2),
    }
    for name, call in calls.items():
        with pytest.raises(AbsentByteError, match="0xc3 at offset 7 of item 0") as caught:
            call()
        found = caught.value
        assert (type(found), found.item, found.offset) == (AbsentByteError, 0, 7), name
    with pytest.raises(AbsentByteError, match="0xc3 at offset 7 of item 1"):
        encoder.encode_batch(["a", text, "b"], special, 1)
    with pytest.raises(AbsentByteError, match="0xc3 at offset 7 of item 1"):
        encoder.encode_documents([b"a", text.encode()], special)
    tokenizer = make({0: b"a", 1: b" "}, [], ["<|>"], pattern=pattern)
    for call in (tokenizer.encode, tokenizer.encode_with_offsets):
        with pytest.raises(ValueError, match="of 'é' at character 7 of the text") as caught:
            call(text)
        assert (caught.value.__context__.item, caught.value.__context__.offset) == (0, 7)
