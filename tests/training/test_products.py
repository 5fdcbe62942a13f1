"""oneDNN products: results, gradients, complete runs, and the comparison that chooses a library."""

from __future__ import annotations

import math

import pytest
import torch

import cs336_basics.training.products as products
from cs336_basics.model import Linear, ModelConfig, TransformerLM
from cs336_basics.training.loss import LanguageModelLoss
from cs336_basics.training.products import (
    PRODUCTS,
    Products,
    check_products,
    compare_products,
    has_onednn,
    onednn_linear,
    onednn_product,
    use_onednn,
)
from tests.errors import rejects
from tests.numerics import assert_close_sums
from tests.training.tiny_runs import changed, losses_of, make

pytestmark = pytest.mark.skipif(not has_onednn(), reason="needs oneDNN in torch")
CONFIG = ModelConfig(
    vocab_size=40, context_length=8, d_model=16, num_layers=2, num_heads=2, d_ff=24
)


@pytest.mark.numerical
@pytest.mark.parametrize("shape", [(1, 64, 48), (3, 64, 1), (50, 64, 48), (5, 1, 7)])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_product_is_within_its_rounding_bound(shape, transposed):
    m, k, n = shape
    a = torch.randn(k, m).T if transposed else torch.randn(m, k)
    b = torch.randn(n, k).T if transposed else torch.randn(k, n)
    expected, scale = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    assert_close_sums(onednn_product(a, b), expected, terms=k, scale=scale)


@pytest.mark.numerical
@pytest.mark.parametrize("shape", [(16,), (5, 16), (2, 5, 16)])
@pytest.mark.parametrize("width", [24, 2500])
def test_a_layer_has_the_gradients_of_linear(shape, width):
    layer = Linear(16, width)
    use_onednn(layer)
    x = torch.randn(shape, requires_grad=True)
    gradient = torch.randn(*shape[:-1], width)
    output = layer(x)
    ours = torch.autograd.grad(output, [x, layer.weight], gradient)
    weight, exact = layer.weight.detach().double(), x.detach().double()
    rows, upper = exact.reshape(-1, 16), gradient.double().reshape(-1, width)
    assert_close_sums(output, exact @ weight.T, terms=16, scale=exact.abs() @ weight.abs().T)
    assert_close_sums(
        ours[0],
        gradient.double() @ weight,
        terms=width,
        scale=gradient.double().abs() @ weight.abs(),
    )
    assert_close_sums(ours[1], upper.T @ rows, terms=len(rows), scale=upper.abs().T @ rows.abs())


def test_the_operator_has_correct_gradients_and_fake_tensors():
    a, b = torch.randn(6, 5, requires_grad=True), torch.randn(7, 5, requires_grad=True)
    torch.library.opcheck(onednn_product, (a, b.T), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("num_chunks", [1, 3])
def test_a_loss_and_its_gradients_are_close_and_the_state_dict_does_not_change(num_chunks):
    model = TransformerLM(CONFIG)
    ids = torch.randint(40, (4, 9))
    results = []
    names = list(model.state_dict())
    for name in ("torch", "onednn"):
        if name == "onednn":
            use_onednn(model)
        loss = LanguageModelLoss(model, num_chunks, products=name)(ids[:, :-1], ids[:, 1:])
        results.append([loss, *torch.autograd.grad(loss, list(model.parameters()))])
    torch.testing.assert_close(results[1], results[0])
    assert list(model.state_dict()) == names
    linear = [module for module in model.modules() if isinstance(module, Linear)]
    assert {module.multiply for module in linear} == {onednn_linear}


@pytest.mark.slow
def test_a_loss_compiles_into_one_graph():
    model = TransformerLM(CONFIG)
    use_onednn(model)
    loss = LanguageModelLoss(model, 2, products="onednn")
    ids = torch.randint(40, (4, 9))
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    expected, actual = loss(ids[:, :-1], ids[:, 1:]), compiled(ids[:, :-1], ids[:, 1:])
    torch.testing.assert_close(actual, expected)
    weights = list(model.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(actual, weights), torch.autograd.grad(expected, weights)
    )


def test_a_run_has_nearly_the_losses_of_another_library(tmp_path):
    for name in ("torch", "onednn"):
        make(tmp_path / name, changed(products=name, loss_chunks=3)).fit()
    ours, theirs = (losses_of(tmp_path / name, "train_loss") for name in ("onednn", "torch"))
    assert ours == pytest.approx(theirs, rel=1e-3)


def test_devices_without_onednn_are_refused(monkeypatch):
    check_products("onednn", torch.device("cpu"))
    with rejects("products", "onednn"):
        check_products("onednn", torch.device("cuda"))
    monkeypatch.setattr(products, "has_onednn", lambda: False)
    check_products("torch", torch.device("cuda"))
    with rejects("products", "oneDNN"):
        check_products("onednn", torch.device("cpu"))


def test_both_libraries_are_timed_and_have_similar_errors():
    times, ratio = compare_products(CONFIG, 32, seconds=0.01)
    assert set(times) == {"torch", "onednn"}
    assert 0 < min(times.values()) <= max(times.values()) < math.inf
    assert ratio < 10


def test_the_time_of_a_step_counts_every_linear_layer(monkeypatch):
    monkeypatch.setattr(products.timeit, "timeit", lambda run, number: 1.0)
    number = sum(isinstance(module, Linear) for module in TransformerLM(CONFIG).modules())
    times, _ = compare_products(CONFIG, 32, seconds=0.1)
    assert times == {"torch": number, "onednn": number}


def test_rounded_factors_have_a_large_error(monkeypatch):
    def rounded(a, b):
        return (a.bfloat16() @ b.bfloat16()).float()

    library = Products(rounded, PRODUCTS["onednn"].weight_gradient)
    monkeypatch.setitem(PRODUCTS, "onednn", library)
    _, ratio = compare_products(CONFIG, 32, seconds=0.0)
    assert ratio > 1000
