"""Word counts of mixtures: the shares hold, and no word is lost."""

from __future__ import annotations

import random

import pytest

from cs336_basics.counting import WordCounts
from cs336_basics.counting.mixture_factors import SMALLEST_FACTOR, mixture_factors
from tests.errors import rejects


def corpus(generator, prefix, num_words):
    """Return word counts where most words are rare, as in text."""
    words = {f"{prefix}{i}".encode(): 1 + int(generator.paretovariate(1)) for i in range(num_words)}
    return WordCounts.from_mapping({**words, b" the": generator.randrange(1, 5000)})


@pytest.mark.parametrize("seed", range(20))
def test_shares_hold_within_a_thousandth_and_no_word_is_lost(seed):
    generator = random.Random(seed)
    corpora = [corpus(generator, chr(97 + i), 10 ** generator.randrange(1, 5)) for i in range(3)]
    weights = [generator.choice([1e-3, 0.1, 0.6, 7]) for _ in corpora]
    mixed = WordCounts.mixed(corpora, weights)
    assert set(mixed) == set().union(*corpora)
    factors, unit = mixture_factors([words.num_bytes for words in corpora], weights)
    for words, weight, factor in zip(corpora, weights, factors, strict=True):
        share = factor * words.num_bytes / mixed.num_bytes
        assert share == pytest.approx(weight / sum(weights), rel=1e-3, abs=0)
        own = set(words).difference(*(other for other in corpora if other is not words))
        assert {mixed[word] for word in own} == {factor * words[word] for word in own}
    assert mixed[b" the"] == sum(f * w[b" the"] for f, w in zip(factors, corpora, strict=True))
    whole = sum(words.num_bytes for words in corpora)
    assert mixed.num_bytes == pytest.approx(unit * whole, rel=1e-3)


def test_weights_in_proportion_to_the_sizes_multiply_all_counts_by_the_unit():
    sizes = [1000, 30, 7_000_000]
    factors, unit = mixture_factors(sizes, sizes)
    assert factors == [unit] * 3
    assert unit == SMALLEST_FACTOR


def test_a_single_corpus_keeps_its_ratios():
    counts = WordCounts.from_mapping({b"a": 1, b"b": 3})
    assert WordCounts.mixed([counts], [0.2]) == {b"a": 2048, b"b": 6144}


@pytest.mark.parametrize(
    ("sizes", "weights", "named"),
    [
        ([10, 10], [1], 1),
        ([], [], 0),
        ([10], [0], 0),
        ([10, 10], [1, -0.5], -0.5),
        ([10], [float("nan")], "nan"),
        ([10], [float("inf")], "inf"),
        ([10], [True], True),
        ([2**50, 2**50], [1, 1e-6], 1e-06),
    ],
)
def test_weights_that_cannot_be_used_are_rejected(sizes, weights, named):
    with rejects("weights", named):
        mixture_factors(sizes, weights)


def test_an_empty_corpus_is_rejected():
    with rejects("counts", 1):
        mixture_factors([10, 0], [1, 1])


def test_the_counts_of_a_large_mixture_fit_into_64_bits():
    factors, _ = mixture_factors([2**40, 2**30], [0.999, 0.001])
    assert min(factors) >= SMALLEST_FACTOR
    assert factors[0] * 2**40 + factors[1] * 2**30 < 2**63


def test_scaling_that_drops_words_warns():
    counts = WordCounts.from_mapping({b"a": 1, b"b": 30})
    with pytest.warns(UserWarning, match=r"\b0\.1\b.*\b1 of 2\b"):
        assert counts.scaled(0.1) == {b"b": 3}
    assert counts.scaled(0) == {}
