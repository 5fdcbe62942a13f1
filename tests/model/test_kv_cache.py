"""The key-value cache: several calls for a text give the same logits as one call."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from cs336_basics.model import KVCache, ModelConfig, TransformerLM
from tests.errors import rejects
from tests.numerics import assert_close_rounded

SMALL = ModelConfig(
    vocab_size=50, context_length=12, d_model=16, num_layers=2, num_heads=2, d_ff=24
)
VARIANTS = [
    dataclasses.replace(SMALL, norm=norm, position=position, attention=attention)
    for norm, position, attention in itertools.product(
        ("pre", "post", "none"), ("rope", "none"), ("sdpa", "blocked", "reference")
    )
]
VARIANTS += [
    dataclasses.replace(SMALL, num_heads=4, num_kv_heads=2, head_dim=6, attention=attention)
    for attention in ("sdpa", "reference")
]
VARIANTS.append(dataclasses.replace(SMALL, bigram_rows=31))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return TransformerLM(SMALL, dtype=torch.float64)


@pytest.mark.numerical
@pytest.mark.parametrize(
    "config",
    VARIANTS,
    ids=lambda config: f"{config.norm}-{config.position}-{config.attention}-{config.kv_heads}",
)
def test_token_by_token_equals_one_call(config):
    model = TransformerLM(config, dtype=torch.float64)
    ids = torch.randint(0, 50, (3, 12))
    cache = KVCache(config, 3, dtype=torch.float64)
    parts = [model(ids[:, i : i + 1], cache) for i in range(12)]
    assert_close(torch.cat(parts, 1), model(ids))
    assert cache.lengths == [12, 12, 12]


@pytest.mark.numerical
@settings(deadline=None, max_examples=40)
@given(
    texts=st.lists(st.lists(st.integers(0, 49), min_size=1, max_size=12), min_size=1, max_size=4),
    data=st.data(),
)
def test_padded_parts_of_texts_of_different_lengths_equal_one_call(model, texts, data):
    cache = KVCache(SMALL, len(texts), dtype=torch.float64)
    given_before = [0] * len(texts)
    for _ in range(4):
        room = 12 - max(given_before)  # for the longest text, including padding
        counts = [
            data.draw(st.integers(0, min(room, len(text) - before)), label="count")
            for text, before in zip(texts, given_before, strict=True)
        ]
        width = max(counts)
        rows = [
            text[before : before + count] + [49] * (width - count)
            for text, before, count in zip(texts, given_before, counts, strict=True)
        ]
        logits = model(torch.tensor(rows, dtype=torch.long).reshape(len(texts), width), cache)
        for row, (before, count) in enumerate(zip(given_before, counts, strict=True)):
            if count == 0:
                continue
            whole = model(torch.tensor(texts[row][: before + count]))[before:]
            assert_close(logits[row, :count], whole)
        given_before = [a + b for a, b in zip(given_before, counts, strict=True)]
        cache.truncate(given_before)


@pytest.mark.numerical
def test_rows_are_selected_and_replaced(model):
    a, b, c = torch.randint(0, 50, (3, 5))
    cache = KVCache(SMALL, 2, dtype=torch.float64)
    model(torch.stack([a, b]), cache)
    other = KVCache(SMALL, 1, dtype=torch.float64)
    model(c[None, :3], other)
    cache.replace([0], other)
    assert cache.lengths == [3, 5]
    cache.select([1, 0])
    assert cache.lengths == [5, 3]
    logits = model(torch.tensor([[7], [8]]), cache)
    assert_close(logits[0, 0], model(torch.cat([b, torch.tensor([7])]))[-1])
    whole = model(torch.cat([c[:3], torch.tensor([8])]))
    assert_close(logits[1, 0], whole[-1])


def test_the_model_has_no_state_between_calls(model):
    ids = torch.randint(0, 50, (1, 6))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    attributes = [set(vars(module)) for module in model.modules()]
    plain = model(ids)
    model(ids, KVCache(SMALL))
    assert_close(model(ids), plain, atol=0, rtol=0)
    assert [set(vars(module)) for module in model.modules()] == attributes
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.numerical
def test_the_cache_has_the_requested_dtype():
    model = TransformerLM(SMALL, dtype=torch.bfloat16)
    ids = torch.randint(0, 50, (1, 6))
    cache = KVCache(SMALL, dtype=torch.bfloat16)
    assert cache.layers[0].keys.dtype == torch.bfloat16
    assert_close_rounded(model(ids, cache), model(ids), roundings=20)
    # Under autocast, keys are bfloat16 and the cache casts them to its own dtype and back.
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model.float()(ids, KVCache(SMALL)).isfinite().all()


def test_bad_batches_lengths_and_sizes_are_rejected(model):
    cache = KVCache(SMALL, 2, dtype=torch.float64)
    with pytest.raises((RuntimeError, IndexError)):
        model(torch.zeros(3, 1, dtype=torch.long), cache)
    model(torch.zeros(2, 10, dtype=torch.long), cache)
    with rejects("token_ids", 12, 13):
        model(torch.zeros(2, 3, dtype=torch.long), cache)
    assert cache.lengths == [10, 10]
    for lengths in ([11, 10], [-1, 10]):
        with rejects("lengths", lengths):
            cache.truncate(lengths)
    with rejects("lengths", 2, 1):
        cache.truncate([10])
    assert cache.lengths == [10, 10]
