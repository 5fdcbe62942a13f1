"""Each call can allow special tokens, reject them or read them as text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics._support.errors import InputTypeError
from cs336_basics.tokenizer.reference import encode_text
from tests.errors import rejects
from tests.tokenizer.examples import END, SPECIALS, small_tokenizer, tricky_texts


def test_disallowed_tokens_and_invalid_choices_are_rejected():
    tokenizer = small_tokenizer((END, "<|pad|>"))
    text = f"the {END} cat<|pad|>"
    with rejects(None, "'<|pad|>'", 21):
        tokenizer.encode(text, allowed_special=[END], disallowed_special="all")
    with rejects(None, "<|endoftext|>", 4):
        tokenizer.encode_array(text, allowed_special=(), disallowed_special=[END])
    with rejects(None, "character 0", place="text 1"):
        tokenizer.encode_batch(["a", END], allowed_special=(), disallowed_special="all")
    with rejects("allowed_special", "'<x>'"):
        tokenizer.encode(text, allowed_special=["<x>"])
    with rejects("allowed_special", "disallowed_special"):
        tokenizer.encode(text, allowed_special=[END], disallowed_special=[END])
    with rejects("allowed_special", "'all'"):
        tokenizer.encode(text, allowed_special="none")
    with rejects("allowed_special", "b'all'", kind=InputTypeError):
        tokenizer.encode(text, allowed_special=b"all")
    for allowed in (None, [END]):
        for disallowed in (None, 0, False, np.int64(3)):
            with rejects("disallowed_special", disallowed, kind=InputTypeError):
                tokenizer.encode(text, allowed_special=allowed, disallowed_special=disallowed)
    for disallowed in ([], np.array([], str)):
        assert tokenizer.encode(text, disallowed_special=disallowed) == tokenizer.encode(text)
    with rejects("disallowed_special", 1):
        tokenizer.encode(text, disallowed_special=np.array([1, 2]))


ENCODE = {
    "encode": lambda tokenizer, text, **choice: tokenizer.encode(text, **choice),
    "encode_array": lambda tokenizer, text, **choice: list(tokenizer.encode_array(text, **choice)),
    "encode_batch": lambda tokenizer, text, **choice: tokenizer.encode_batch([text], **choice)[0],
    "encode_batch_array": lambda tokenizer, text, **choice: list(
        tokenizer.encode_batch_array([text], **choice)[0]
    ),
    "encode_with_offsets": lambda tokenizer, text, **choice: tokenizer.encode_with_offsets(
        text, **choice
    )[0],
}


@pytest.mark.parametrize("name", ENCODE)
def test_disallowed_special_tokens_are_rejected(name):
    tokenizer, encode = small_tokenizer((END, "<|pad|>")), ENCODE[name]
    for disallowed in ("all", [END]):
        with rejects(None, "<|endoftext|>", 4):
            encode(tokenizer, f"the {END} cat", disallowed_special=disallowed)
        assert encode(tokenizer, "the cat", disallowed_special=disallowed) == tokenizer.encode(
            "the cat"
        )
    pad = tokenizer.special_token_id("<|pad|>")  # not disallowed, so allowed
    assert pad in encode(tokenizer, "the<|pad|>", disallowed_special=[END])


@given(text=tricky_texts, allowed=st.sets(st.sampled_from(SPECIALS)))
@settings(max_examples=100, deadline=None)
def test_a_subset_of_special_tokens_can_be_allowed(text, allowed):
    tokenizer = small_tokenizer(tuple(SPECIALS))
    expected = encode_text(text, tokenizer.vocab, tokenizer.merges, sorted(allowed))
    for name, encode in ENCODE.items():
        assert encode(tokenizer, text, allowed_special=allowed) == expected, name
