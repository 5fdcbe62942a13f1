"""Offsets: the characters that each token covers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.tokenizer.examples import SPECIALS, tricky_texts


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"\w+|[^\w ]"])
@given(text=tricky_texts)
@settings(max_examples=60, deadline=None)
def test_offsets_span_the_characters_of_each_token(make_small, pattern, text):
    tokenizer = make_small(tuple(SPECIALS), pattern)
    ids, offsets = tokenizer.encode_with_offsets(text)
    assert ids == tokenizer.encode(text)
    assert len(offsets) == len(ids)
    for token_id, (start, end) in zip(ids, offsets, strict=True):
        span = text[start:end].encode()
        token = tokenizer.vocab[token_id]
        assert token in span
        # At each end, the span may include up to three more bytes of a character that is cut.
        assert len(span) - len(token) <= 6
    assert [start for start, _ in offsets] == sorted(start for start, _ in offsets)
    if pattern in ("gpt2", "cl100k") and text:
        assert offsets[0][0] == 0
        assert offsets[-1][1] == len(text)
