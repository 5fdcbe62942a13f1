"""Comparisons of ids, logits and greedy text detect differences."""

from __future__ import annotations

import pytest
import torch

from cs336_basics._support.errors import RunError
from cs336_basics.formats.agreement import (
    compare_decoding,
    compare_ids,
    compare_logits,
    probe_texts,
)
from tests.errors import rejects
from tests.formats.exported import SPECIAL, trained
from tests.formats.models import random_model
from tests.tokenizer.examples import byte_tokenizer

TINY = {"vocab_size": 50, "d_model": 16, "num_layers": 1, "num_heads": 2, "d_ff": 24}


def test_the_texts_contain_every_special_token_and_difficult_characters():
    texts = probe_texts(trained("gpt2"))
    assert len(texts) == 25
    everything = "".join(texts)
    for token in [*SPECIAL, "猫", "🎉", "\u3000", "\r\n", "they'll"]:
        assert token in everything


def test_equal_ids_are_counted():
    tokenizer = byte_tokenizer()
    number = sum(len(text.encode()) for text in probe_texts(tokenizer))
    line = compare_ids(tokenizer, lambda text: list(text.encode()))
    assert line == f"ids equal on 25 texts, {number:,} tokens"


def test_different_ids_are_an_error_with_the_text():
    with rejects(None, "There", kind=RunError):
        compare_ids(byte_tokenizer(), lambda text: [ord(c) for c in text])


def test_different_decoded_text_is_an_error():
    tokenizer = byte_tokenizer("<s>")

    def decode(ids, skip):
        return tokenizer.decode(ids, skip_special_tokens=skip)

    assert compare_decoding(tokenizer, decode)
    with rejects(None, "<s>", kind=RunError):
        compare_decoding(tokenizer, lambda ids, skip: decode(ids, False))


@pytest.mark.parametrize("context_length", [1, 2, 9, 100])
def test_a_model_agrees_with_itself_at_any_context_length(context_length):
    model = random_model(context_length=context_length, **TINY)
    line = compare_logits(model, model, 1e-6)
    number = {1: 0, 2: 1, 9: 4, 100: 64}[context_length]
    assert line == f"logits within 0.0e+00, {number} greedy tokens equal"


def test_different_logits_are_an_error():
    model = random_model(context_length=20, **TINY)
    with rejects(None, "0.01", "0.0001", kind=RunError):
        compare_logits(model, lambda ids: model(ids) + 0.01, 1e-4)
    with rejects(None, "nan", kind=RunError):
        compare_logits(model, lambda ids: model(ids) * torch.nan, 1e-4)


def test_rounded_logits_may_differ_by_a_share_of_the_largest():
    model = random_model(context_length=20, **TINY)
    line = compare_logits(model, lambda ids: 1.01 * model(ids), 0.02, rounded=True)
    assert line.endswith("the same most likely token at 20 of 20 positions")
    with rejects(None, "logits", kind=RunError):
        compare_logits(model, lambda ids: 1.01 * model(ids), 0.005, rounded=True)


def test_a_different_greedy_text_is_an_error():
    model = random_model(context_length=20, **TINY)

    def other(ids):
        logits = model(ids)
        if ids.shape[1] == 10:  # true when the third token is generated
            logits[0, -1] = logits[0, -1].flip(-1)
        return logits

    with rejects(None, "token 2", kind=RunError):
        compare_logits(model, other, 1e9)
