"""Linear, Embedding, RMSNorm and the feed-forward networks, compared with torch.nn."""

from __future__ import annotations

import math

import pytest
import torch
from torch.testing import assert_close

from cs336_basics._support.errors import InputTypeError
from cs336_basics.model import Embedding, Linear, RMSNorm, SiLUFeedForward, SwiGLU, silu
from cs336_basics.model.layers import check_ids
from tests.errors import rejects

BATCH_SHAPES = [(), (1, 1), (5,), (2, 3), (2, 1, 3)]


def assert_same_with_gradients(ours, theirs, x):
    """Assert that two modules have equal outputs, input gradients and parameter gradients."""
    results = []
    for module in (ours, theirs):
        leaf = x.clone().requires_grad_()
        out = module(leaf)
        out.square().sum().backward()
        results.append((out, leaf.grad, [parameter.grad for parameter in module.parameters()]))
    assert_close(results[0], results[1])


@pytest.mark.numerical
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("shape", BATCH_SHAPES)
def test_linear_equals_torch(shape):
    ours = Linear(6, 4)
    theirs = torch.nn.Linear(6, 4, bias=False)
    theirs.load_state_dict(ours.state_dict())
    assert_same_with_gradients(ours, theirs, torch.randn(*shape, 6))


@pytest.mark.numerical
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("shape", BATCH_SHAPES)
def test_embedding_equals_torch(shape, dtype):
    ours = Embedding(11, 4)
    theirs = torch.nn.Embedding(11, 4)
    theirs.load_state_dict(ours.state_dict())
    ids = torch.randint(0, 11, shape, dtype=dtype)
    for module in (ours, theirs):
        module(ids).square().sum().backward()
    assert_close(ours(ids), theirs(ids))
    assert_close(ours.weight.grad, theirs.weight.grad)


@pytest.mark.numerical
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("shape", BATCH_SHAPES)
def test_rmsnorm_equals_torch(shape):
    ours = RMSNorm(6, eps=1e-3)
    theirs = torch.nn.RMSNorm(6, eps=1e-3)
    with torch.no_grad():
        ours.weight.copy_(torch.randn(6))
    theirs.load_state_dict(ours.state_dict())
    assert_same_with_gradients(ours, theirs, torch.randn(*shape, 6))


@pytest.mark.numerical
@pytest.mark.usefixtures("float64")
def test_rmsnorm_starts_as_plain_normalization():
    x = torch.randn(3, 64) * 7
    mean = x.square().mean(-1)
    assert_close(RMSNorm(64)(x).square().mean(-1), mean / (mean + 1e-5))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rmsnorm_computes_in_float32(dtype):
    x = torch.full((4, 8), 1000.0, dtype=dtype)  # the square of 1000 overflows float16
    out = RMSNorm(8, dtype=dtype)(x)
    assert out.dtype == dtype
    assert_close(out, torch.ones_like(x))


def test_rmsnorm_of_zeros_is_zero_with_finite_gradient():
    x = torch.zeros(2, 8, requires_grad=True)
    out = RMSNorm(8)(x)
    out.sum().backward()
    assert torch.equal(out, torch.zeros(2, 8))
    assert x.grad.isfinite().all()


@pytest.mark.numerical
@pytest.mark.usefixtures("float64")
def test_silu_equals_torch():
    x = torch.linspace(-100, 100, 401, requires_grad=True)
    assert_close(silu(x), torch.nn.functional.silu(x))
    assert_close(
        torch.autograd.grad(silu(x).sum(), x),
        torch.autograd.grad(torch.nn.functional.silu(x).sum(), x),
    )


@pytest.mark.numerical
@pytest.mark.usefixtures("float64")
def test_feed_forward_networks_follow_their_formulas():
    x = torch.randn(2, 3, 8)
    gated, plain = SwiGLU(8, 24), SiLUFeedForward(8, 32)
    w1, w2, w3 = gated.w1.weight, gated.w2.weight, gated.w3.weight
    F = torch.nn.functional
    assert_close(gated(x), F.linear(F.silu(F.linear(x, w1)) * F.linear(x, w3), w2))
    assert_close(plain(x), F.linear(F.silu(F.linear(x, plain.w1.weight)), plain.w2.weight))
    assert set(gated.state_dict()) == {"w1.weight", "w2.weight", "w3.weight"}
    assert set(plain.state_dict()) == {"w1.weight", "w2.weight"}


@pytest.mark.parametrize("module", [SwiGLU(3, 4), SiLUFeedForward(3, 4)], ids=repr)
def test_gradients_equal_finite_differences(module):
    module = module.double()
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(module, (x,))


@pytest.mark.parametrize(
    ("weight", "std"),
    [
        (lambda: Linear(400, 300).weight, math.sqrt(2 / 700)),
        (lambda: Linear(30, 4000).weight, math.sqrt(2 / 4030)),
        (lambda: Embedding(400, 300).weight, 1.0),
    ],
    ids=["linear", "wide linear", "embedding"],
)
def test_initial_weights_have_the_documented_distributions(weight, std):
    torch.manual_seed(0)
    values = weight() / std
    # The variance of a standard normal truncated at 3: 1 - 2 * 3 * pdf(3) / (cdf(3) - cdf(-3)).
    pdf = math.exp(-4.5) / math.sqrt(2 * math.pi)
    expected = math.sqrt(1 - 6 * pdf / math.erf(3 / math.sqrt(2)))
    assert values.abs().max() <= 3.0001
    assert values.abs().max() > 2.9  # truncated at 3, not earlier
    assert abs(values.mean()) < 0.015
    assert abs(values.std() - expected) < 0.01


@pytest.mark.parametrize("layer", [Linear, Embedding, SwiGLU, SiLUFeedForward])
def test_device_and_dtype_reach_every_parameter(layer):
    for parameter in layer(4, 6, device="meta", dtype=torch.bfloat16).parameters():
        assert parameter.device.type == "meta"
        assert parameter.dtype == torch.bfloat16
    gain = RMSNorm(4, device="meta", dtype=torch.bfloat16).weight
    assert (gain.device.type, gain.dtype) == ("meta", torch.bfloat16)


@pytest.mark.parametrize(
    ("layer", "names"),
    [
        (Linear, ["in_features", "out_features"]),
        (Embedding, ["num_embeddings", "embedding_dim"]),
        (RMSNorm, ["d_model"]),
        (SwiGLU, ["d_model", "d_ff"]),
        (SiLUFeedForward, ["d_model", "d_ff"]),
    ],
)
def test_sizes_are_checked(layer, names):
    for name in names:
        others = dict.fromkeys(names, 4)
        for bad in (None, 1.5):
            with rejects(name, bad, kind=InputTypeError):
                layer(**{**others, name: bad})
        with rejects(name, -1):
            layer(**{**others, name: -1})


def test_the_eps_of_rmsnorm_is_a_number():
    with rejects("eps", "None", kind=InputTypeError):
        RMSNorm(4, eps=None)


@pytest.mark.parametrize("bad", [-1, -11, 11, 2**40])
def test_an_id_out_of_range_is_rejected(bad):
    with pytest.raises(IndexError, match=f" 10, .* {bad}$"):
        check_ids(torch.tensor([[0, 10], [bad, 3]]), 11)
    with pytest.raises(IndexError, match=f" 10, .* {bad}$"):
        Embedding(11, 4)(torch.tensor([[0, 10], [bad, 3]]))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.float32, torch.int16])
def test_ids_of_other_dtypes_are_rejected(dtype):
    # torch would treat uint8 and bool as masks and return the wrong rows.
    with rejects("token_ids", dtype, kind=InputTypeError):
        check_ids(torch.ones(3, dtype=dtype), 11)
