"""The compiled products and kernels of generation, compared with exact results."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cs336_basics._support.errors import InputError
from cs336_basics.generation.precision import rounded
from cs336_basics.model import ModelConfig, TransformerLM
from tests.numerics import assert_close_sums

_inference = pytest.importorskip("cs336_basics.generation._inference")

LEVELS = _inference.simd_levels()
SIZES = [(1, 1, 1), (3, 5, 7), (1, 64, 130), (4, 33, 96), (9, 10, 257), (2, 3, 9_001)]
at_all_levels = pytest.mark.parametrize("simd_level", LEVELS)


def drawn(tokens, rows, columns):
    """Return a weight and vectors whose numbers differ in size by row and by column."""
    weight = torch.randn(rows, columns) * torch.randn(rows, 1).exp()
    return weight, torch.randn(tokens, columns) * torch.randn(columns).exp()


def product(weight, x, precision, simd_level):
    return torch.from_numpy(
        _inference.product(weight.numpy(), x.numpy(), precision, simd_level=simd_level)
    )


def integers(x, largest):
    """Return numbers (rows, columns) as integers, and the scale of each row."""
    scale = x.abs().amax(dim=1, keepdim=True) / largest
    return (x / scale).nan_to_num(0).clamp(-largest, largest).round().long(), scale


@at_all_levels
@pytest.mark.numerical
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_a_product_of_floats_is_within_its_rounding_bound(sizes, precision, simd_level):
    weight, x = drawn(*sizes)
    exact = rounded(weight, precision).double()
    scale = x.double().abs() @ exact.abs().T
    result = product(weight, x, precision, simd_level)
    assert_close_sums(result, x.double() @ exact.T, terms=sizes[2], scale=scale)


@at_all_levels
@pytest.mark.numerical
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_a_product_of_integers_is_exact(sizes, simd_level):
    weight, x = drawn(*sizes)
    (w, row_scale), (v, scale) = integers(weight, 127), integers(x, 32767)
    expected = ((v @ w.T).double() * (scale.double() * row_scale.double().T)).float()
    assert torch.equal(product(weight, x, "int8", simd_level), expected)


@at_all_levels
@pytest.mark.numerical
def test_a_product_of_integers_is_as_near_as_documented(simd_level):
    weight, x = drawn(4, 50, 200)
    near = rounded(weight, "int8").double()
    weight_error = weight.abs().amax(dim=1).double() / 254  # half a unit
    input_error = x.abs().amax(dim=1).double() / 65534
    bound = torch.outer(x.abs().double().sum(1), weight_error)
    bound += torch.outer(input_error, near.abs().sum(1))
    exact = x.double() @ weight.double().T
    error = (product(weight, x, "int8", simd_level).double() - exact).abs()
    assert (error <= bound * (1 + 1e-5)).all()  # the scales are rounded to float32
    assert (error > bound / 1000).any()


@at_all_levels
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_extreme_numbers(precision, simd_level):
    weight = torch.zeros(6, 70)
    weight[1, 3], weight[2, 69], weight[3, 5] = 1e-42, 3e38, torch.nan
    weight[4] = torch.linspace(1e-40, 2e-40, 70)  # the scale is denormal
    weight[5] = torch.linspace(-3e38, 3e38, 70)
    x = torch.zeros(3, 70)
    x[0], x[1, 69] = 1e-3, 2.0
    result = product(weight, x, precision, simd_level).double()
    expected = x.double() @ rounded(weight, precision).double().T
    expected[result.isinf()] = torch.inf  # 6e38 overflows
    torch.testing.assert_close(result, expected, equal_nan=True, rtol=2e-4, atol=1e35 * 1e-3)
    assert torch.equal(result[:, 0], torch.zeros(3).double())
    assert result[:, 3].isnan().all()
    x[2, 0] = torch.inf
    assert not product(weight, x, precision, simd_level)[2, 5].isfinite()


@at_all_levels
def test_all_levels_and_numbers_of_tokens_give_the_same_integers(simd_level):
    torch.manual_seed(0)
    weight, x = drawn(11, 40, 300)
    together = product(weight, x, "int8", simd_level)
    assert torch.equal(together, product(weight, x, "int8", LEVELS[0]))
    for token in range(11):
        alone = product(weight, x[token : token + 1], "int8", simd_level)
        assert torch.equal(alone[0], together[token])


@at_all_levels
def test_silu_has_the_precision_of_float32(simd_level):
    x = torch.cat([torch.linspace(-80, 100, 10_001), torch.tensor([0.0, -0.0, 1e-30, -1e-30])])
    result = torch.from_numpy(_inference.silu(x.numpy(), simd_level=simd_level)).double()
    expected = torch.nn.functional.silu(x.double())
    # The exponential is within 2e-7, and there are four more roundings of 6e-8.
    torch.testing.assert_close(result, expected, rtol=4.5e-7, atol=1e-37)
    ends = np.array([-1e4, 1e4, np.nan, -3e38, 3e38], np.float32)
    result = _inference.silu(ends, simd_level=simd_level)
    assert abs(result[0]) < 1e-33
    assert result[1] == 1e4
    assert np.isnan(result[2])
    assert np.isfinite(result[[3, 4]]).all()


def made_inference(**changes):
    """Return an Inference for a model of 5 ids and 4 positions, and what its `forward` takes."""
    torch.manual_seed(0)
    config = ModelConfig(vocab_size=5, context_length=4, d_model=8, num_layers=1, num_heads=2,
                         bigram_rows=3)  # fmt: skip
    model = TransformerLM(config)
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    angles = tuple(table.numpy() for table in (model.layers[0].attn.rope.cos,
                                               model.layers[0].attn.rope.sin))  # fmt: skip
    given = {"weights": weights, "angles": angles, "num_texts": 2, "threads": 1} | {
        name: change(weights) if callable(change) else change for name, change in changes.items()
    }
    return _inference.Inference(
        config, given["weights"], given["angles"], given["num_texts"], "float32", given["threads"]
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"weights": lambda weights: {}},
        {"weights": lambda weights: weights | {"lm_head.weight": np.zeros((5, 7), np.float32)}},
        {"weights": lambda weights: weights | {"other.weight": np.zeros((5, 8), np.float32)}},
        {"angles": (np.zeros((4, 2), np.float32),)},
        {"angles": (np.zeros((3, 2), np.float32), np.zeros((4, 2), np.float32))},
        {"num_texts": 0},
        {"threads": 0},
    ],
)
def test_arrays_of_other_shapes_are_refused(changes):
    with pytest.raises(ValueError, match=r"weights do not|angles must|is not positive"):
        made_inference(**changes)


@pytest.mark.parametrize("num_texts", [1 << 60, 1 << 63])
def test_too_many_texts_do_not_fit_into_memory(num_texts):
    with pytest.raises(MemoryError):
        made_inference(num_texts=num_texts)


def numbers(*values):
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ids": numbers(0, 5)}, "ids must be from 0 to 4, got 5"),
        ({"ids": numbers(-1, 0)}, "ids must be from 0 to 4, got -1"),
        ({"texts": numbers(0, 2)}, "texts must be from 0 to 1, got 2"),
        ({"texts": numbers(0)}, "texts must have 2 numbers, got 1"),
        ({"positions": numbers(0, 4)}, "positions must be from 0 to 3, got 4"),
        ({"rows": numbers(0, 3)}, "rows must be from 0 to 2, got 3"),
        ({"rows": None}, "rows must be given"),
        ({"wanted": numbers(0, 2)}, "wanted must be from 0 to 1, got 2"),
        ({"wanted": numbers(1, 0)}, "wanted must increase"),
        ({"wanted": numbers(0)}, "logits must have the shape"),
        ({"logits": np.zeros((2, 4), np.float32)}, "logits must have the shape"),
    ],
)
def test_tokens_out_of_range_are_refused(changes, message):
    inference = made_inference()
    given = {
        "ids": numbers(0, 4), "texts": numbers(0, 0), "positions": numbers(0, 1),
        "wanted": numbers(0, 1), "logits": np.zeros((2, 5), np.float32), "rows": numbers(0, 2),
    }  # fmt: skip
    inference.forward(*given.values())
    with pytest.raises(ValueError, match=message):
        inference.forward(*(given | changes).values())


def test_unknown_levels_are_refused():
    with pytest.raises(InputError) as raised:
        _inference.silu(np.zeros(1, np.float32), simd_level="avx9")
    assert raised.value.argument == "simd_level"
    assert _inference.default_simd_level() in LEVELS
