"""Gradient clipping, compared with torch.nn.utils.clip_grad_norm_."""

from __future__ import annotations

import math

import pytest
import torch
from torch.testing import assert_close

from cs336_basics.training import clip_gradients
from cs336_basics.training.clipping import clip_gradients_foreach
from tests.errors import rejects
from tests.numerics import rounding_bound

pytestmark = pytest.mark.numerical

NUM_GRADIENTS = 52  # number of elements in all gradients from `parameters_with_gradients`


def parameters_with_gradients(scale=1.0, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(5, 4), (7,), (), (2, 3, 4)]
    parameters = [torch.zeros(shape, dtype=dtype, requires_grad=True) for shape in shapes]
    for parameter in parameters:
        noise = torch.randn(parameter.shape, generator=generator) * scale
        parameter.grad = noise.to(dtype)
    parameters.insert(1, torch.zeros(3, requires_grad=True))  # no gradient
    parameters.append(torch.zeros(3))  # does not require a gradient
    return parameters


def gradients(parameters):
    return [p.grad for p in parameters if p.grad is not None]


@pytest.mark.parametrize("max_norm", [1e-3, 1.0, 5.0, 1e6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_clipping_equals_torch(max_norm, dtype, seed):
    ours = parameters_with_gradients(dtype=dtype, seed=seed)
    theirs = parameters_with_gradients(dtype=dtype, seed=seed)
    norm = clip_gradients(ours, max_norm)
    expected = torch.nn.utils.clip_grad_norm_([p for p in theirs if p.requires_grad], max_norm)
    assert isinstance(norm, float)
    # In bfloat16, only the norms, the factor and the product are rounded; sums are in float32.
    terms = 4 if dtype == torch.bfloat16 else NUM_GRADIENTS + 4
    tolerance = 2 * rounding_bound(terms, dtype) + 1e-6 / norm  # both functions add an eps
    assert norm == pytest.approx(expected.item(), rel=tolerance)
    assert_close(gradients(ours), gradients(theirs), rtol=tolerance, atol=0)


def test_small_gradients_do_not_change():
    parameters = parameters_with_gradients()
    before = [g.clone() for g in gradients(parameters)]
    assert clip_gradients(parameters, math.inf) == clip_gradients(parameters, 100.0) > 1
    assert all(map(torch.equal, before, gradients(parameters)))


def test_a_generator_of_parameters_is_clipped_in_place():
    parameters = parameters_with_gradients()
    storages = [g.data_ptr() for g in gradients(parameters)]
    first = clip_gradients((p for p in parameters), 0.1)
    assert first > 1
    assert storages == [g.data_ptr() for g in gradients(parameters)]
    assert clip_gradients(iter(parameters), 0.1) == pytest.approx(
        0.1, rel=rounding_bound(2 * NUM_GRADIENTS + 4) + 1e-6
    )


def test_dtypes_may_be_mixed():
    parameters = [torch.zeros(2, dtype=dtype) for dtype in (torch.float64, torch.bfloat16)]
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, 2.0)
    assert clip_gradients(parameters, 2.0) == pytest.approx(4.0)
    assert [p.grad.dtype for p in parameters] == [torch.float64, torch.bfloat16]
    assert_close([p.grad.tolist() for p in parameters], [[1.0, 1.0]] * 2, atol=1e-6, rtol=0)


def test_eps_enters_the_factor_and_a_single_parameter_is_accepted():
    parameter = torch.zeros(2, requires_grad=True)
    parameter.grad = torch.tensor([3.0, 4.0])
    assert clip_gradients(parameter, 1.0, eps=5.0) == 5.0
    assert_close(parameter.grad, torch.tensor([0.3, 0.4]))


def test_the_norm_without_gradients_is_zero():
    assert clip_gradients([], 1.0) == 0.0
    assert clip_gradients([torch.zeros(2, requires_grad=True)], 1.0) == 0.0
    zero = torch.zeros(2, requires_grad=True)
    zero.grad = torch.zeros(2)
    assert clip_gradients([zero], 1.0) == 0.0
    assert torch.equal(zero.grad, torch.zeros(2))


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_a_norm_that_is_not_finite_is_reported_and_changes_nothing(bad):
    parameters = parameters_with_gradients()
    parameters[0].grad[2, 1] = bad
    before = [g.clone() for g in gradients(parameters)]
    norm = clip_gradients(parameters, 1.0)
    assert math.isnan(norm) if math.isnan(bad) else norm == math.inf
    assert_close(gradients(parameters), before, atol=0, rtol=0, equal_nan=True)


@pytest.mark.parametrize("bad", [0, -1.0, math.nan])
def test_a_bound_that_is_not_positive_is_rejected(bad):
    with rejects("max_l2_norm", "max_l2_norm", bad):
        clip_gradients(parameters_with_gradients(), bad)


@pytest.mark.parametrize("max_norm", [1e-3, 1.0, 1e6])
def test_clip_gradients_foreach_equals_clip_gradients(max_norm, seed):
    ours = parameters_with_gradients(seed=seed)
    theirs = parameters_with_gradients(seed=seed)
    norm = clip_gradients_foreach(theirs, max_norm)
    assert norm.shape == ()
    tolerance = 2 * rounding_bound(NUM_GRADIENTS + 4)
    assert norm.item() == pytest.approx(clip_gradients(ours, max_norm), rel=tolerance)
    assert_close(gradients(ours), gradients(theirs), rtol=tolerance, atol=0)
    assert clip_gradients_foreach([torch.zeros(3)], max_norm) == 0
