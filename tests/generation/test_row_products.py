"""Products of a single row and a matrix, compared with the readable implementation."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch

from cs336_basics.generation import row_products
from cs336_basics.generation.row_products import (
    RowLinear,
    dot_products_are_faster,
    with_row_products,
)
from cs336_basics.model import KVCache, Linear, ModelConfig, TransformerLM
from tests.formats.models import random_model
from tests.numerics import assert_close_sums

CONFIG = ModelConfig(
    vocab_size=40, context_length=8, d_model=16, num_layers=2, num_heads=2, d_ff=24
)


@pytest.fixture
def dots_are_faster(monkeypatch):
    monkeypatch.setattr(row_products, "dot_products_are_faster", lambda num_threads: True)


@pytest.mark.numerical
@pytest.mark.parametrize("shape", [(64,), (1, 64), (1, 1, 64), (2, 64)])
def test_a_product_is_within_its_rounding_bound(shape):
    layer, x = RowLinear(64, 48), torch.randn(shape)
    weight = layer.weight.detach().double()
    scale = x.double().abs() @ weight.abs().T
    assert_close_sums(layer(x).detach(), x.double() @ weight.T, terms=64, scale=scale)


@pytest.mark.parametrize(
    "values", [{"tied_embeddings": True}, {}, {"qkv_bias": True, "num_kv_heads": 1}], ids=str
)
def test_all_products_of_one_token_are_fast_and_share_the_weights(
    values, monkeypatch, dots_are_faster
):
    config = dataclasses.replace(CONFIG, **values)
    model = random_model(config=config)
    random_state = torch.get_rng_state()
    fast = with_row_products(model)
    assert torch.equal(torch.get_rng_state(), random_state)
    before = list(model.state_dict().items())
    cache, expected = KVCache(config), KVCache(config)
    products = []
    vecdot = torch.linalg.vecdot
    monkeypatch.setattr(torch.linalg, "vecdot", lambda *a: products.append(1) or vecdot(*a))
    for token in (3, 5, 7):
        ids = torch.tensor([[token]])
        torch.testing.assert_close(fast(ids, cache), model(ids, expected))
    assert len(products) == 3 * (2 * 7 + 1)  # 7 matrices per layer, and the head
    assert fast.token_embeddings.weight is model.token_embeddings.weight
    assert not any(isinstance(module, RowLinear) for module in model.modules())
    with torch.no_grad():
        model.layers[0].ffn.w1.weight.mul_(2)  # changes the weight of both models
    assert torch.equal(fast.layers[0].ffn.w1.weight, model.layers[0].ffn.w1.weight)
    assert [name for name, _ in before] == list(model.state_dict())


def test_models_of_other_dtypes_devices_and_classes_are_returned_unchanged(dots_are_faster):
    for options in ({"dtype": torch.float64}, {"dtype": torch.bfloat16}, {"device": "meta"}):
        model = TransformerLM(CONFIG, **options)
        assert with_row_products(model) is model

    class Sharded(TransformerLM):  # like the class that fully_shard creates
        __deepcopy__ = None

    model = Sharded(CONFIG)
    assert with_row_products(model) is model
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fast = with_row_products(TransformerLM(CONFIG))
        assert fast(torch.tensor([[1]])).isfinite().all()
    assert type(Linear(2, 2)) is Linear


@pytest.mark.parametrize("slow", ["vecdot", "product"])
def test_the_faster_product_is_chosen(slow, monkeypatch):
    times = {"vecdot": 1.0, "product": 1.0, slow: 3.0}
    seconds = itertools.cycle([times["vecdot"], times["product"]])
    monkeypatch.setattr(row_products.timeit, "timeit", lambda *_, **__: next(seconds))
    random_state = torch.get_rng_state()
    chosen = dot_products_are_faster.__wrapped__(1)
    assert chosen == (slow == "product")
    assert torch.equal(torch.get_rng_state(), random_state)
    monkeypatch.setattr(row_products, "dot_products_are_faster", lambda num_threads: chosen)
    model = TransformerLM(CONFIG)
    assert (with_row_products(model) is model) != chosen
