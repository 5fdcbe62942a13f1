"""Cross-entropy compared with torch, including cases where a naive implementation fails."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from cs336_basics._support.errors import InputTypeError
from cs336_basics.model import TransformerLM
from cs336_basics.training import cross_entropy
from cs336_basics.training.loss import (
    LanguageModelLoss,
    chunked_cross_entropy,
)
from cs336_basics.training.memory import LiveBytes
from tests.errors import rejects
from tests.numerics import assert_close_sums
from tests.training.small_runs import SMALL

pytestmark = pytest.mark.numerical


def torch_cross_entropy(logits, targets):
    loss = torch.nn.CrossEntropyLoss()
    return loss(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1).long())


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_cross_entropy_equals_torch(shape, dtype, index_dtype):
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
def test_cross_entropy_is_stable_for_logits_of_any_size(row, target):
    logits = torch.tensor([row], requires_grad=True)
    targets = torch.tensor([target])
    ours, theirs = cross_entropy(logits, targets), torch_cross_entropy(logits, targets)
    assert_close(ours, theirs)
    assert_close(torch.autograd.grad(ours, logits), torch.autograd.grad(theirs, logits))


@pytest.mark.parametrize("scale", [1e2, 1e4, 1e6])
def test_no_digits_are_lost_if_all_logits_are_large(scale):
    logits = (torch.rand(50, 10) * 8).round() + scale
    targets = torch.randint(0, 10, (50,))
    exact = torch_cross_entropy(logits.double(), targets)
    # The sums have 10 exponentials and 50 rows, whose losses are at most 8 + ln 10.
    assert_close_sums(cross_entropy(logits, targets), exact, terms=64, scale=10.4)


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
    # The float64 loss starts from the same rounded logits, so only the rounding of sums differs.
    exact = torch_cross_entropy(logits.detach().double(), targets)
    # The float32 sums have 5000 exponentials, whose relative error is the absolute error of the
    # logarithm, and 64 rows with losses below 32. In 16 bits, the sum alone would be off by more
    # than 0.05.
    assert_close_sums(loss, exact, terms=5000 + 64 * 32, scale=1.0)
    loss.backward()
    assert logits.grad.dtype == dtype


@pytest.mark.numerical(seeds=False)
@pytest.mark.usefixtures("float64")
def test_cross_entropy_compiles_into_one_graph():
    torch.compiler.reset()
    logits, targets = torch.randn(2, 3, 5), torch.randint(0, 5, (2, 3))
    compiled = torch.compile(cross_entropy, backend="aot_eager", fullgraph=True)
    assert_close(compiled(logits, targets), cross_entropy(logits, targets))


@pytest.mark.parametrize("bad", [-1, -100, 7])
def test_a_target_out_of_range_is_rejected(bad):
    with pytest.raises(RuntimeError, match=str(bad)):
        cross_entropy(torch.randn(2, 7), torch.tensor([3, bad]))


def test_cross_entropy_rejects_bad_shapes_and_dtypes():
    with rejects("targets", "(2,)", "(3,)"):
        cross_entropy(torch.randn(2, 7), torch.tensor([0, 1, 2]))
    with rejects("targets", "(2,)", "()"):
        cross_entropy(torch.randn(2, 7), torch.tensor(0))  # would broadcast to a wrong result
    with rejects("targets"):
        cross_entropy(torch.randn(0, 7), torch.empty(0, dtype=torch.long))
    with rejects("targets", "torch.float32", kind=InputTypeError):
        cross_entropy(torch.randn(2, 7), torch.zeros(2))


# chunked_cross_entropy


def both(hidden, head, targets, num_chunks, soft_cap=None):
    """Return the loss and gradients from the readable and the chunked implementation."""
    results = []
    for chunked in (False, True):
        h = hidden.clone().requires_grad_()
        w = head.clone().requires_grad_()
        if chunked:
            loss = chunked_cross_entropy(h, w, targets, num_chunks, soft_cap=soft_cap)
        else:
            logits = h @ w.T
            if soft_cap is not None:
                logits = soft_cap * torch.tanh(logits / soft_cap)
            loss = cross_entropy(logits, targets)
        (3 * loss).backward()
        results.append((loss.detach(), h.grad, w.grad))
    return results


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(1, 5), max_size=3),
    st.integers(1, 9),
    st.integers(1, 30),
    st.sampled_from([None, 0.5, 30.0]),
    st.sampled_from([0.01, 1.0, 30.0]),
    st.integers(0, 2**32),
)
def test_chunks_give_the_same_loss_and_gradients(
    shape, num_chunks, vocab_size, soft_cap, scale, seed
):
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(*shape, 6, generator=generator, dtype=torch.float64) * scale
    head = torch.randn(vocab_size, 6, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, vocab_size, shape, generator=generator)
    readable, chunked = both(hidden, head, targets, num_chunks, soft_cap)
    # Logits below 2500 have an error of at most 2e-12, which becomes the relative error of a
    # probability. Multiplied by 3 |hidden| < 450, this error becomes 1e-9 in a gradient.
    for one, other in zip(readable, chunked, strict=True):
        assert_close(one, other, atol=1e-9, rtol=1e-9)


def test_chunks_in_float32_are_within_their_rounding_bound():
    hidden, head = torch.randn(8, 32, 64), torch.randn(5000, 64) / 8
    targets = torch.randint(0, 5000, (8, 32), dtype=torch.int32)
    _, chunked = both(hidden, head, targets, 8)
    exact, _ = both(hidden.double(), head.double(), targets, 8)
    # A logit is the sum of 64 products below 8. The error of the logit becomes the relative error
    # of a probability. The other sums have 5000 classes and 256 rows.
    terms = 8 * 64 + 5000 + 256
    rows, weight = hidden.double().flatten(0, 1), head.double()
    share = torch.softmax(rows @ weight.T, -1)
    share[torch.arange(256), targets.flatten().long()] += 1  # an upper bound on |softmax - onehot|
    share *= 3 / 256
    scales = [10.0, (share @ weight.abs()).reshape(hidden.shape), share.T @ rows.abs()]
    for ours, theirs, scale in zip(chunked, exact, scales, strict=True):
        assert_close_sums(ours, theirs, terms=terms, scale=scale)


def test_chunks_in_bfloat16_are_close_to_float32():
    hidden, head = torch.randn(256, 64), torch.randn(1000, 64) / 8
    targets = torch.randint(0, 1000, (256,))
    exact = cross_entropy(hidden @ head.T, targets)
    h = hidden.clone().requires_grad_()
    rounded = chunked_cross_entropy(h, head, targets, 4, dtype=torch.bfloat16)
    rounded.backward()
    assert rounded.dtype == h.grad.dtype == torch.float32
    assert_close(rounded, exact, atol=1e-2, rtol=0)


def test_chunks_are_stable_for_logits_of_any_size():
    hidden = torch.tensor([[1e18], [-1e18], [0.0]], requires_grad=True)
    head = torch.tensor([[1e18], [-1e18], [1.0]], requires_grad=True)
    loss = chunked_cross_entropy(hidden, head, torch.tensor([0, 1, 2]), 2)
    assert_close(loss.detach(), torch.tensor(math.log(3) / 3))
    loss.backward()
    assert hidden.grad.isfinite().all()


def test_chunks_need_at_most_a_quarter_of_the_memory():
    hidden = torch.randn(1024, 16, requires_grad=True)
    head = torch.randn(4000, 16, requires_grad=True)
    targets = torch.randint(0, 4000, (1024,))
    with LiveBytes() as readable:
        cross_entropy(hidden @ head.T, targets).backward()
    with LiveBytes() as chunked:
        chunked_cross_entropy(hidden, head, targets, 8).backward()
    assert chunked.peak * 4 <= readable.peak


@pytest.mark.numerical(seeds=False)
@pytest.mark.usefixtures("float64")
def test_chunks_compile():
    torch.compiler.reset()
    hidden, head, targets = torch.randn(8, 4), torch.randn(5, 4), torch.randint(0, 5, (8,))
    compiled = torch.compile(chunked_cross_entropy, backend="aot_eager", fullgraph=True)
    hidden.requires_grad_()
    loss = compiled(hidden, head, targets, 2)
    assert_close(loss, cross_entropy(hidden @ head.T, targets))
    (gradient,) = torch.autograd.grad(loss, hidden)
    assert_close(gradient, torch.autograd.grad(cross_entropy(hidden @ head.T, targets), hidden)[0])


@pytest.mark.parametrize("num_chunks", [1, 3])
def test_checkpointed_activations_give_the_same_bits(num_chunks):
    ids = torch.randint(0, 20, (3, 7))
    results = []
    for checkpointed in (False, True):
        torch.manual_seed(1)
        model = TransformerLM(SMALL, recompute=checkpointed)
        saved = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (saved.append(t), t)[1], id):  # noqa: B023
            loss = LanguageModelLoss(model, num_chunks)(ids[:, :-1], ids[:, 1:])
        loss = LanguageModelLoss(model, num_chunks)(ids[:, :-1], ids[:, 1:])
        loss.backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        results.append((loss, *gradients, len(saved)))
    assert all(torch.equal(a, b) for a, b in zip(results[0][:-1], results[1][:-1], strict=True))
    assert results[1][-1] < results[0][-1] / 2


def test_without_gradients_the_chunks_compute_only_their_logits():
    hidden, head = torch.randn(12, 8, requires_grad=True), torch.randn(20, 8, requires_grad=True)
    targets = torch.randint(0, 20, (12,))
    with FlopCounterMode(display=False) as with_gradients:
        loss = chunked_cross_entropy(hidden, head, targets, 3)
    with torch.no_grad(), FlopCounterMode(display=False) as without:
        again = chunked_cross_entropy(hidden, head, targets, 3)
    assert with_gradients.get_total_flops() == 3 * without.get_total_flops()
    assert without.get_total_flops() == 2 * 12 * 8 * 20
    assert float(again) == float(loss.detach())


def test_a_scaled_loss_in_float16_has_the_gradients_of_float64():
    rows, vocab_size = 2048, 5000
    hidden = torch.randn(rows, 16, dtype=torch.float16)
    head = (torch.randn(vocab_size, 16) / 50).to(torch.float16)
    targets = torch.randint(0, vocab_size, (rows,))
    results = []
    for dtype in (torch.float16, torch.float64):
        x, w = (tensor.detach().to(dtype).requires_grad_() for tensor in (hidden, head))
        loss = chunked_cross_entropy(x, w, targets, 4)
        torch.autograd.backward(loss * 4096)
        results.append((x.grad.double(), w.grad.double()))
    for found, expected in zip(*results, strict=True):
        # The gradients are rounded to 11 bits a few times. If the forward pass divided them by the
        # number of rows, most would be zero.
        assert float((found - expected).norm() / expected.norm()) < 0.01


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("num_chunks", [1, 3])
@pytest.mark.parametrize("soft_cap", [None, 2.0])
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_negative_targets_are_not_counted(num_chunks, soft_cap, share):
    model = TransformerLM(dataclasses.replace(SMALL, logit_soft_cap=soft_cap))
    ids = torch.randint(0, 20, (3, 7))
    targets = ids[:, 1:].where(torch.rand(3, 6) < share, -1)
    loss = LanguageModelLoss(model, num_chunks)(ids[:, :-1], targets)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    logits = model(ids[:, :-1]).flatten(0, 1)
    total = torch.nn.functional.cross_entropy(
        logits, targets.flatten(), ignore_index=-1, reduction="sum"
    )
    expected = total / max(1, int((targets >= 0).sum()))
    assert_close(loss, expected)
    assert_close(gradients, torch.autograd.grad(expected, list(model.parameters())))
    assert share > 0 or float(loss.detach()) == 0
