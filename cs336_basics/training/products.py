"""Compute float32 matrix products on a CPU with oneDNN instead of torch's default library.

On x86, torch multiplies float32 matrices with MKL. Depending on the CPU and the shapes, oneDNN is
faster or slower (benchmarks/NOTES.md). Both compute in float32 but add in different orders, so the
results differ by rounding errors.
"""

from __future__ import annotations

import functools
import math
import time
import timeit
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cs336_basics._support.errors import InputError
from cs336_basics.model import Linear, ModelConfig, TransformerLM
from cs336_basics.model.shapes import products as weight_products

# oneDNN computes the gradient of a weight with at least this number of output features. oneDNN is
# slower for 1,344 features and faster for 10,000 (benchmarks/NOTES.md).
_WIDE = 2048
_MOST_ROWS = 1024  # maximum when timing; more rows do not change which library is faster
_CHECKED_ROWS = 64  # rows of each result that are compared with float64


def has_onednn() -> bool:
    """Return whether torch has oneDNN's matrix product on this machine."""
    has_library: bool = torch._C._has_mkldnn
    return has_library and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def check_products(products: str, device: torch.device) -> None:
    """Check that the library for matrix products is available.

    Raises:
        ValueError: If `products` is "onednn" and the device is not a CPU or torch has no oneDNN.
    """
    if products == "onednn" and (device.type != "cpu" or not has_onednn()):
        where = f"on {device.type}" if device.type != "cpu" else "if torch has no oneDNN"
        raise InputError(f"must be torch {where}, got {products}", argument="products")


@torch.library.custom_op("cs336_basics::onednn_product", mutates_args=())
def onednn_product(a: Tensor, b: Tensor) -> Tensor:
    """Return a @ b for float32 matrices of shapes (m, k) and (k, n) on a CPU.

    `torch.compile` treats this operator as opaque, so it does not copy a transposed `b` first.
    """
    product: Tensor = torch.ops.mkldnn._linear_pointwise(a, b.T, None, "none", [], "")
    return product


@onednn_product.register_fake
def _(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(a.shape[0], b.shape[1])


def onednn_weight_gradient(gradient: Tensor, x: Tensor) -> Tensor:
    """Return gradient.T @ x for matrices of shapes (m, n) and (m, k).

    If the gradient is wide, oneDNN computes the transposed result. Otherwise, torch computes the
    result, because it is faster.
    """
    if gradient.shape[1] < _WIDE:
        return gradient.T @ x
    product: Tensor = onednn_product(x.T, gradient)
    return product.T


def _save_factors(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
    a, b = ctx.saved_tensors
    return onednn_product(gradient, b.T), onednn_weight_gradient(gradient, a).T


onednn_product.register_autograd(_gradients, setup_context=_save_factors)


class Products(NamedTuple):
    """Functions for the matrix products of a linear layer and its gradients."""

    multiply: Callable[[Tensor, Tensor], Tensor]
    """Returns a @ b."""
    weight_gradient: Callable[[Tensor, Tensor], Tensor]
    """Returns gradient.T @ x."""


PRODUCTS = {
    "torch": Products(torch.matmul, lambda gradient, x: gradient.T @ x),
    "onednn": Products(onednn_product, onednn_weight_gradient),
}
"""Products by the name used in `TrainConfig.products`."""


def onednn_linear(x: Tensor, matrix: Tensor) -> Tensor:
    """Return x @ matrix for float32 x of shape (..., m) and a matrix of shape (m, n) on a CPU."""
    product: Tensor = onednn_product(x.reshape(-1, x.shape[-1]), matrix)
    return product.reshape(*x.shape[:-1], -1)


def use_onednn(model: TransformerLM) -> None:
    """Make a model's linear layers multiply matrices with oneDNN. The state dict is unchanged."""
    for module in model.modules():
        if isinstance(module, Linear):
            module.multiply = onednn_linear


# Choosing


def _linear_pass(
    products: Products, x: Tensor, weight: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return a linear layer's output and the gradients of its input and its weight."""
    multiply, weight_gradient = products
    return multiply(x, weight.T), multiply(gradient, weight), weight_gradient(gradient, x)


def _errors(products: Products, x: Tensor, weight: Tensor, gradient: Tensor) -> list[float]:
    """Return the relative error of the first rows of each product, compared with float64."""
    rows = slice(_CHECKED_ROWS)
    wide, matrix, upper = x.double(), weight.double(), gradient.double()
    exact = (wide[rows] @ matrix.T, upper[rows] @ matrix, upper[:, rows].T @ wide)
    return [
        float((result[rows] - expected).norm() / expected.norm())
        for result, expected in zip(_linear_pass(products, x, weight, gradient), exact, strict=True)
    ]


def compare_products(
    model: ModelConfig, rows: int, *, seconds: float = 1.0
) -> tuple[dict[str, float], float]:
    """Time the products of a step with torch and with oneDNN, and compare their errors.

    The forward and backward passes of each linear layer are timed with at most 1,024 rows. The
    libraries take turns, so other load on the machine affects both. Only the fastest pass for each
    shape is used.

    Args:
        model: Configuration of the model.
        rows: Number of tokens in a micro-batch.
        seconds: Time to spend on timing.

    Returns:
        The time in seconds for each key of PRODUCTS, and the largest ratio of oneDNN's error to
        torch's. A ratio of about 1 is expected; products of rounded factors would give ratios in
        the thousands.
    """
    counts: Counter[tuple[int, int]] = Counter()  # of linear layers, by (in, out) features
    for weight in weight_products(model):
        out_features, in_features = weight.shape
        counts[in_features, out_features] += weight.copies * weight.uses
    generator = torch.Generator().manual_seed(0)
    passes: dict[tuple[str, tuple[int, int]], Callable[[], object]] = {}
    ratio = 0.0
    for width, height in counts:
        factors = (
            torch.randn(min(rows, _MOST_ROWS), width, generator=generator),
            torch.randn(height, width, generator=generator),
            torch.randn(min(rows, _MOST_ROWS), height, generator=generator),
        )
        for name, products in PRODUCTS.items():
            passes[name, (width, height)] = functools.partial(_linear_pass, products, *factors)
        pairs = zip(
            *(_errors(PRODUCTS[name], *factors) for name in ("onednn", "torch")), strict=True
        )
        ratio = max(ratio, *(ours / theirs for ours, theirs in pairs))
    best = dict.fromkeys(passes, math.inf)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for key, run in passes.items():
            best[key] = min(best[key], timeit.timeit(run, number=1))
    times = {
        name: sum(count * best[name, shape] for shape, count in counts.items()) for name in PRODUCTS
    }
    return times, ratio
