"""Rounded weights."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from cs336_basics.generation.precision import check_precision, rounded, with_rounded_matrices
from cs336_basics.model import KVCache, Linear, ModelConfig
from tests.errors import rejects
from tests.formats.models import random_model

CONFIG = ModelConfig(
    vocab_size=40, context_length=8, d_model=16, num_layers=2, num_heads=2, d_ff=24
)


def test_numbers_are_rounded_to_integers_times_the_scale_of_their_row():
    weight = torch.tensor([[127.0, -63.4, 0.6, 0.5], [0.0, 0.0, 0.0, 0.0], [-2.54, 1.0, 0.01, 2.0]])
    expected = torch.tensor([[127.0, -63, 1, 0], [0, 0, 0, 0], [-2.54, 1.0, 0.02, 2.0]])
    expected[2, 2] = 0  # half of the scale, 0.02, is rounded to the even integer
    result = rounded(weight, "int8")
    torch.testing.assert_close(result[:2], expected[:2])
    assert (result[2] - expected[2]).abs().max() <= 0.01 + 1e-6
    assert torch.equal(rounded(weight, "float32"), weight)
    assert torch.equal(rounded(weight, "bfloat16"), weight.bfloat16().float())


@pytest.mark.numerical
@pytest.mark.usefixtures("float64")
def test_the_errors_are_within_the_documented_bounds():
    weight = torch.randn(30, 50) * torch.randn(30, 1).exp()
    errors = (rounded(weight, "int8") - weight).abs()
    half = weight.abs().amax(dim=1, keepdim=True) / 254
    assert (errors <= half * (1 + 1e-12)).all()
    assert (errors.amax(dim=1) > half[:, 0] / 2).all()
    errors = (rounded(weight, "bfloat16") - weight).abs()
    assert (errors <= weight.abs() * 2**-8 * (1 + 1e-6)).all()


def test_invalid_numbers_stay_invalid():
    weight = torch.ones(3, 4)
    weight[0, 1], weight[1, 2] = torch.inf, torch.nan
    for precision in ("int8", "bfloat16"):
        result = rounded(weight, precision)
        assert not result[0].isfinite().all()
        assert not result[1].isfinite().all()
        assert torch.equal(result[2], torch.ones(4))


@pytest.mark.parametrize(
    "values", [{"tied_embeddings": True}, {}, {"qkv_bias": True, "num_kv_heads": 1}], ids=str
)
@pytest.mark.parametrize("precision", ["int8", "bfloat16"])
def test_a_copy_has_rounded_matrices_and_shares_the_rest(values, precision):
    config = dataclasses.replace(CONFIG, **values)
    model = random_model(config=config)
    random_state = torch.get_rng_state()
    copy = with_rounded_matrices(model, precision)
    assert torch.equal(torch.get_rng_state(), random_state)
    assert any("lm_head" in name for name in model.state_dict()) != config.tied_embeddings
    originals = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    for name, module in copy.named_modules():
        if isinstance(module, Linear):
            old = model.head_weight if name == "lm_head" else model.get_parameter(f"{name}.weight")
            assert torch.equal(module.weight, rounded(old, precision))
            assert not torch.equal(module.weight, old)
    shared = {id(tensor) for tensor in (*copy.parameters(), *copy.buffers())} & originals
    num_matrices = 7 * config.num_layers + 1
    assert len(shared) == len(originals) - num_matrices + config.tied_embeddings
    assert copy(torch.tensor([[1]]), KVCache(config)).isfinite().all()
    assert with_rounded_matrices(model, "float32") is model


def test_unknown_precisions_are_rejected():
    for precision in ("int4", "", None):
        with rejects("precision", precision):
            check_precision(precision)
