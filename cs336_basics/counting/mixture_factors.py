"""The integers by which to multiply the word counts of each corpus of a mixture."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from fractions import Fraction

from cs336_basics._support.arguments import MAX_INT64
from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr

SMALLEST_FACTOR = 1 << 11
"""Minimum factor in a mixture. Rounding it to an integer changes a share by less than 0.025 %."""


def mixture_factors(num_bytes: Sequence[int], weights: Sequence[float]) -> tuple[list[int], int]:
    """Return the integers by which to multiply the counts of each corpus of a mixture.

    A unit, which is a power of two, stands for one occurrence in a text that has the mixture's
    shares and is as long as all corpora together. It is large enough that no factor is below
    SMALLEST_FACTOR.

    Args:
        num_bytes: Number of bytes counted in each corpus.
        weights: Weight of each corpus; see `WordCounts.mixed`.

    Returns:
        The factors, and the unit.

    Raises:
        ValueError: If the numbers of corpora and weights differ, a corpus is empty, a weight is not
            positive and finite, or a weight is too small for the size of its corpus.
    """
    if len(num_bytes) != len(weights) or not weights:
        raise InputError(
            f"must have one weight for each of one or more corpora, got {len(weights)} for "
            f"{len(num_bytes)}",
            argument="weights",
        )
    exact = []
    for index, weight in enumerate(weights):
        if isinstance(weight, bool) or not 0 < weight < float("inf"):
            raise InputError(
                f"must be positive and finite, got {short_repr(weight)} at index {index}",
                argument="weights",
            )
        if not num_bytes[index]:
            raise InputError(f"must contain words, got none at index {index}", argument="counts")
        exact.append(Fraction(float(weight)) / num_bytes[index])
    whole = sum(num_bytes) / sum(Fraction(float(weight)) for weight in weights)
    unit = 1
    while min(exact) * whole * unit < SMALLEST_FACTOR:
        unit *= 2
    factors = [round(share * whole * unit) for share in exact]
    if sum(map(operator.mul, factors, num_bytes)) > MAX_INT64:
        smallest = min(range(len(weights)), key=exact.__getitem__)
        raise InputError(
            f"must not be so small for a corpus of {num_bytes[smallest]:,} bytes, got "
            f"{weights[smallest]} at index {smallest}",
            argument="weights",
        )
    return factors, unit
