"""Cross-entropy against torch, and where a naive one fails."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from cs336_basics.training import cross_entropy


@pytest.fixture(autouse=True)
def _fixed_seed():
    torch.manual_seed(0)


def torch_cross_entropy(logits, targets):
    loss = torch.nn.CrossEntropyLoss()
    return loss(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1).long())


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_equals_torch(shape, dtype, index_dtype):
    logits = torch.randn(*shape, 7, dtype=dtype, requires_grad=True)
    targets = torch.randint(0, 7, shape, dtype=index_dtype)
    ours, theirs = cross_entropy(logits, targets), torch_cross_entropy(logits, targets)
    assert ours.shape == ()
    assert ours.dtype == dtype
    assert_close(ours, theirs)
    assert_close(torch.autograd.grad(ours, logits), torch.autograd.grad(theirs, logits))


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=4, max_size=4),
    st.integers(0, 3),
)
def test_stable_for_logits_of_any_size(row, target):
    logits = torch.tensor([row], requires_grad=True)
    targets = torch.tensor([target])
    ours, theirs = cross_entropy(logits, targets), torch_cross_entropy(logits, targets)
    assert_close(ours, theirs)
    assert_close(torch.autograd.grad(ours, logits), torch.autograd.grad(theirs, logits))


@pytest.mark.parametrize("scale", [1e2, 1e4, 1e6])
def test_no_digits_are_lost_where_all_logits_are_large(scale):
    logits = (torch.rand(50, 10) * 8).round() + scale
    targets = torch.randint(0, 10, (50,))
    exact = torch_cross_entropy(logits.double(), targets)
    assert_close(cross_entropy(logits, targets).double(), exact, atol=1e-6, rtol=1e-6)


def test_large_logits_by_hand():
    logits = torch.tensor([[1e4, 0.0], [1e4, 0.0], [-1e4, -1e4]])
    targets = torch.tensor([0, 1, 0])
    assert_close(cross_entropy(logits, targets), torch.tensor((0 + 1e4 + math.log(2)) / 3))


def test_excluded_classes_may_be_minus_infinity():
    logits = torch.tensor([[0.0, -math.inf, 0.0]], requires_grad=True)
    loss = cross_entropy(logits, torch.tensor([0]))
    loss.backward()
    assert_close(loss, torch.tensor(math.log(2)))
    assert_close(logits.grad, torch.tensor([[-0.5, 0.0, 0.5]]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_are_summed_in_float32(dtype):
    logits = (torch.randn(64, 5000) * 3).to(dtype).requires_grad_()
    targets = torch.randint(0, 5000, (64,))
    loss = cross_entropy(logits, targets)
    assert loss.dtype == torch.float32
    # The same numbers in float64: nothing is lost but what the logits had lost already.
    exact = torch_cross_entropy(logits.detach().double(), targets)
    assert_close(loss.double(), exact, atol=1e-5, rtol=1e-6)
    loss.backward()
    assert logits.grad.dtype == dtype


def test_loss_of_equal_logits_is_the_logarithm_of_the_vocabulary():
    loss = cross_entropy(torch.zeros(3, 4, 10_000), torch.zeros(3, 4, dtype=torch.long))
    assert_close(loss, torch.tensor(math.log(10_000)))


def test_gradient_in_float64():
    logits = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(0, 5, (2, 3))
    assert torch.autograd.gradcheck(lambda x: cross_entropy(x, targets), (logits,))


def test_compiles():
    torch.compiler.reset()
    logits, targets = torch.randn(2, 3, 5), torch.randint(0, 5, (2, 3))
    compiled = torch.compile(cross_entropy, backend="aot_eager", fullgraph=True)
    assert_close(compiled(logits, targets), cross_entropy(logits, targets))


@pytest.mark.parametrize("bad", [-1, -100, 7])
def test_names_a_target_out_of_range(bad):
    with pytest.raises(IndexError, match=rf"targets must lie in 0 \.\. 6.* {bad}$"):
        cross_entropy(torch.randn(2, 7), torch.tensor([3, bad]))


def test_errors():
    with pytest.raises(ValueError, match=r"\(2, 7\), targets \(3,\)"):
        cross_entropy(torch.randn(2, 7), torch.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match="targets must have the shape"):
        cross_entropy(torch.randn(2, 7), torch.tensor(0))  # would broadcast, and be wrong
    with pytest.raises(ValueError, match="no targets to average over"):
        cross_entropy(torch.randn(0, 7), torch.empty(0, dtype=torch.long))
    with pytest.raises(TypeError, match=r"torch\.float32"):
        cross_entropy(torch.randn(2, 7), torch.zeros(2))
