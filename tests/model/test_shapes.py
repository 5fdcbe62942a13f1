"""The description of a model's weights, compared with models that are built."""

from __future__ import annotations

import dataclasses
import itertools
import time

import pytest

from cs336_basics.model import Embedding, Linear, ModelConfig, RMSNorm, TransformerLM
from cs336_basics.model.bigrams import BigramEmbedding
from cs336_basics.model.shapes import PARTS, ROLES, products, weights

SMALL = ModelConfig(vocab_size=50, context_length=7, d_model=12, num_layers=3, num_heads=2, d_ff=20)

GROUPED = {"num_kv_heads": 1, "head_dim": 4, "qkv_bias": True, "bigram_rows": 9}
ROLE_OF = {
    Embedding: "embedding",
    BigramEmbedding: "embedding",
    Linear: "matrix",
    RMSNorm: "gain",
}


@pytest.mark.parametrize("norm", ["pre", "post", "none"])
@pytest.mark.parametrize("ffn", ["swiglu", "silu"])
def test_every_weight_of_a_model_is_described_with_its_shape_and_role(norm, ffn):
    for qk_norm, tied, grouped in itertools.product((False, True), repeat=3):
        config = dataclasses.replace(
            SMALL,
            norm=norm,
            ffn=ffn,
            qk_norm=qk_norm,
            tied_embeddings=tied,
            **(GROUPED if grouped else {}),
        )
        model = TransformerLM(config)
        described = {name: each for each in weights(config) for name in each.names()}
        built = {name: tuple(weight.shape) for name, weight in model.state_dict().items()}
        assert {name: each.shape for name, each in described.items()} == built
        assert sum(each.copies for each in weights(config)) == len(built)
        assert set(PARTS) >= {each.part for each in described.values()}
        roles = model.parameter_roles()
        for name, module in model.named_modules():
            if type(module) in ROLE_OF:
                expected = ROLE_OF[type(module)]
                expected = "head" if name == "lm_head" else expected
                assert roles.pop(f"{name}.weight") == expected
                if isinstance(module, BigramEmbedding):
                    assert roles.pop(f"{name}.scale") == "gain"
                if getattr(module, "bias", None) is not None:
                    assert roles.pop(f"{name}.bias") == "bias"
        assert not roles
        assert set(model.parameter_roles().values()) <= set(ROLES)


@pytest.mark.parametrize("tied", [False, True])
def test_a_product_is_counted_once_for_each_linear_layer_and_the_head(tied):
    config = dataclasses.replace(SMALL, tied_embeddings=tied)
    shapes = [each.shape for each in products(config) for _ in range(each.copies * each.uses)]
    model = TransformerLM(config)
    linear = [module for module in model.modules() if isinstance(module, Linear)]
    expected = [tuple(module.weight.shape) for module in linear]
    expected += [tuple(model.head_weight.shape)] * tied
    assert sorted(shapes) == sorted(expected)


def test_the_description_of_a_huge_model_is_short():
    huge = dataclasses.replace(SMALL, num_layers=10**15)
    start = time.process_time()
    assert huge.num_parameters() > 10**18
    assert time.process_time() - start < 1
