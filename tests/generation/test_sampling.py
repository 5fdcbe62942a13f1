from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics.generation.sampling import (
    Sampling,
    keep_likely,
    keep_nucleus,
    keep_top_k,
    penalize_repetition,
)
from tests.errors import rejects


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.5),
        ("temperature", math.inf),
        ("top_p", 0.0),
        ("top_p", 1.5),
        ("top_k", 0),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", math.inf),
    ],
)
def test_bad_values_are_rejected(name, value):
    with rejects(name, value):
        Sampling(**{name: value})


@pytest.mark.parametrize(
    ("logits", "fields"),
    [
        ([0.0, math.nan], ("logits",)),
        ([[1.0, 2.0]], ("logits", "(1, 2)")),
        ([], ("logits", "(0,)")),
    ],
)
def test_bad_logits_are_rejected(logits, fields):
    with rejects(*fields):
        Sampling().draw(torch.tensor(logits))


# Comparison of samples with the exact distribution

# Upper 0.1 % points of the chi-square distribution by degrees of freedom, from a standard table.
CHI_SQUARE_999 = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47, 5: 20.52}

LOGITS = [0.3, -1.0, 1.2, 0.0, 0.9, -0.4]
PREVIOUS = (2, 5, 2)  # the text so far, for the repetition penalty


def exact_distribution(temperature=1.0, top_k=None, top_p=1.0, min_p=0.0, repetition_penalty=1.0):
    """Return the sampler's distribution, computed with Python floats."""
    logits = list(LOGITS)
    for i in set(PREVIOUS):
        logits[i] *= 1 / repetition_penalty if logits[i] > 0 else repetition_penalty
    weights = {i: math.exp(logit / temperature) for i, logit in enumerate(logits)}

    def scaled(weights):
        total = sum(weights.values())
        return {i: weight / total for i, weight in weights.items()}

    likeliest = sorted(weights, key=lambda i: (-weights[i], i))
    probabilities = scaled({i: weights[i] for i in likeliest[:top_k]})
    kept, mass = {}, 0.0
    for i in probabilities:  # likeliest first
        if mass >= top_p:
            break
        kept[i] = probabilities[i]
        mass += probabilities[i]
    return scaled({i: p for i, p in kept.items() if p >= min_p * max(kept.values())})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.7},
        {"temperature": 2.5},
        {"top_p": 0.9},
        {"temperature": 0.8, "top_p": 0.7},
        {"top_k": 3},
        {"top_k": 100},
        {"min_p": 0.3},
        {"repetition_penalty": 1.5},
        {"repetition_penalty": 0.5},
        {"temperature": 1.3, "top_k": 5, "top_p": 0.85, "min_p": 0.4, "repetition_penalty": 1.2},
    ],
    ids=str,
)
@pytest.mark.parametrize("draws", [1000, pytest.param(3000, marks=pytest.mark.slow)])
def test_samples_follow_the_exact_distribution(options, draws):
    expected = exact_distribution(**options)
    logits = torch.tensor(LOGITS).expand(draws, -1)
    tokens = Sampling(**options).draw_rows(logits, [PREVIOUS] * draws, [seeded(3)] * draws)
    counts = [tokens.count(i) for i in range(len(LOGITS))]
    assert {i for i, count in enumerate(counts) if count} <= set(expected)
    statistic = sum((counts[i] - draws * p) ** 2 / (draws * p) for i, p in expected.items())
    assert statistic < CHI_SQUARE_999[len(expected) - 1]
    # The samples do not match a different temperature, so the check above can fail.
    other = exact_distribution(temperature=options.get("temperature", 1.0) * 2)
    assert sum((counts[i] - draws * p) ** 2 / (draws * p) for i, p in other.items()) > 30


def test_repetition_penalty_by_hand():
    logits = torch.tensor([2.0, -2.0, 0.0, 1.0])
    assert penalize_repetition(logits, [0, 1, 0], 2.0).tolist() == [1.0, -4.0, 0.0, 1.0]
    assert penalize_repetition(logits, [], 2.0).tolist() == logits.tolist()
    assert logits.tolist() == [2.0, -2.0, 0.0, 1.0]


def test_top_k_and_min_p_by_hand():
    probabilities = torch.tensor([0.25, 0.125, 0.25, 0.375])
    assert keep_top_k(probabilities, 1).tolist() == [0, 0, 0, 0.375]
    assert keep_top_k(probabilities, 2).tolist() == [0.25, 0, 0, 0.375]  # ties go to the lower id
    assert keep_top_k(probabilities, 9).tolist() == probabilities.tolist()
    assert keep_likely(probabilities, 0.0).tolist() == probabilities.tolist()
    assert keep_likely(probabilities, 0.5).tolist() == [0.25, 0, 0.25, 0.375]
    assert keep_likely(probabilities, 1.0).tolist() == [0, 0, 0, 0.375]


@given(
    weights=st.lists(st.integers(0, 8), min_size=1, max_size=12).filter(any),
    top_p=st.floats(0.01, 1.0),
)
@settings(deadline=None)
def test_the_nucleus_is_the_smallest_set_that_reaches_p(weights, top_p):
    # Probabilities are multiples of a power of two, so sums are exact. Some are tied, and some sums
    # equal top_p.
    total = 1 << (sum(weights) - 1).bit_length()
    weights = [*weights, total - sum(weights)]
    probabilities = torch.tensor(weights, dtype=torch.float32) / total
    kept = keep_nucleus(probabilities, top_p)
    inside = kept > 0
    assert torch.equal(kept[inside], probabilities[inside])
    if top_p == 1:
        assert torch.equal(kept, probabilities)
        return
    mass = float(kept.sum())
    assert mass >= top_p
    # The set is too small without its least likely token.
    assert mass - float(kept[inside].min()) < top_p
    if not inside.all():
        assert probabilities[~inside].max() <= kept[inside].min()


@pytest.mark.parametrize("scale", [0.0, 0.01, 1.0, 5.0])  # 0: all tokens are tied
@pytest.mark.parametrize("rounded", [False, True], ids=["distinct", "tied"])
def test_filters_of_a_large_vocabulary_equal_those_of_a_complete_sort(scale, rounded):
    logits = torch.randn(5000, dtype=torch.double, generator=seeded(7)) * scale
    probabilities = torch.softmax(logits.round() if rounded else logits, dim=-1)
    ids = sorted(range(5000), key=lambda i: (-float(probabilities[i]), i))
    for top_k in (1, 40, 4999):
        kept = keep_top_k(probabilities, top_k).nonzero()[:, 0].tolist()
        assert kept == sorted(ids[:top_k])
    for top_p in (1e-6, 0.5, 0.9, 0.999):
        nucleus, mass = [], 0.0
        for i in ids:
            if mass >= top_p:
                break
            nucleus.append(i)
            mass += float(probabilities[i])
        assert keep_nucleus(probabilities, top_p).nonzero()[:, 0].tolist() == sorted(nucleus)


def test_the_nucleus_ends_when_the_sum_equals_p():
    probabilities = torch.tensor([0.125, 0.5, 0.25, 0.125])
    assert keep_nucleus(probabilities, 0.75).tolist() == [0, 0.5, 0.25, 0]
    assert keep_nucleus(probabilities, 1e-9).tolist() == [0, 0.5, 0, 0]


@pytest.mark.parametrize("temperature", [1e-30, 1e-3, 1e30])
def test_extreme_temperatures_stay_finite(temperature):
    logits = torch.tensor([1.0, 3e4, -3e4])
    token = Sampling(temperature=temperature).draw(logits, generator=seeded())
    assert token in range(3)
    if temperature < 1:
        assert token == 1


@pytest.mark.parametrize("penalty", [1e-320, 1e-30, 1e30, 1e308])
def test_an_extreme_penalty_decides_but_stays_finite(penalty):
    logits = torch.tensor([2.0, 1.0, -1.0])
    drawn = Sampling(repetition_penalty=penalty).draw(logits, [0], seeded())
    assert (drawn == 0) == (penalty < 1)
    for previous in ([0, 1, 2], [2], []):
        assert Sampling(repetition_penalty=penalty).draw(logits, previous, seeded()) in range(3)
