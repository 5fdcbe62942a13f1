"""Derived tolerances for comparisons in float32 and 16-bit dtypes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from cs336_basics.model import RotaryPositionalEmbedding


@contextlib.contextmanager
def default_dtype(name: str) -> Iterator[None]:
    """Set torch's default dtype, which models, optimizers and entire training runs then use."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, name))
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def rounding_bound(terms: int, dtype: torch.dtype = torch.float32) -> float:
    """Return gamma_n = n u / (1 - n u), which bounds the relative error of n successive roundings.

    u = eps / 2 is the unit roundoff. For any order of summation, with or without fused
    multiply-adds, the computed sum of n products differs from the exact sum by at most gamma_n
    times the sum of the products' absolute values (Higham 2002, "Accuracy and Stability of
    Numerical Algorithms", sections 3.1 and 4.2).
    """
    nu = terms * torch.finfo(dtype).eps / 2
    assert nu < 0.1, f"too many operations for {dtype}: {terms}"
    return nu / (1 - nu)


def assert_close_sums(
    actual: Tensor, expected: Tensor, *, terms: int, scale: Tensor | float
) -> None:
    """Assert that two computed sums of `terms` products agree except for rounding errors.

    `scale` is the sum of the products' absolute values, for all or for each element. Each side may
    be off by gamma_terms * scale, so the difference may be twice as large. `expected` may have a
    higher precision; the bound uses the dtype of `actual`.
    """
    assert actual.shape == expected.shape
    bound = 2 * rounding_bound(terms, actual.dtype) * torch.as_tensor(scale, dtype=torch.float64)
    actual, expected = actual.detach(), expected.detach()
    excess = (actual.double() - expected.double()).abs() - bound
    worst = int(excess.argmax())
    assert float(excess.max()) <= 0, (
        f"element {worst}: {float(actual.flatten()[worst])} and "
        f"{float(expected.flatten()[worst])} differ by {float(excess.max()):.3g} more than "
        f"{terms} roundings explain"
    )


def assert_close_rounded(actual: Tensor, expected: Tensor, *, roundings: int) -> None:
    """Assert that a tensor with a 16-bit dtype is exact except for successive roundings.

    Each rounding causes a relative error of at most u. A layer that normalizes or adds mixes these
    errors but does not amplify them. So the relative error of the whole tensor, in the Frobenius
    norm, is at most about gamma_n (Higham 2002, section 3.1). Single elements may have a larger
    error after a cancellation.
    """
    difference = (actual.double() - expected.double()).norm()
    limit = rounding_bound(roundings, actual.dtype) * expected.double().norm()
    assert difference <= limit, (
        f"off by {difference:.3g}; {roundings} roundings explain only {limit:.3g}"
    )


def make_tables_exact(rope: RotaryPositionalEmbedding, theta: float) -> RotaryPositionalEmbedding:
    """Recompute a RoPE module's tables in float64, so that its results have float64 precision."""
    max_seq_len, pairs = rope.cos.shape
    frequencies = theta ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    angles = torch.outer(torch.arange(max_seq_len, dtype=torch.float64), frequencies)
    rope.cos, rope.sin = angles.cos(), angles.sin()
    return rope
