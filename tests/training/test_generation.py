from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics.generation import generate, keep_nucleus, sample_token
from cs336_basics.model import ModelConfig, TransformerLM

CONFIG = ModelConfig(
    vocab_size=17, context_length=8, d_model=16, num_layers=2, num_heads=2, d_ff=32
)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return TransformerLM(CONFIG)


class FixedModel(torch.nn.Module):
    """Predicts the id after the last one, and remembers what it was shown."""

    def __init__(self, vocab_size=5, context_length=4):
        super().__init__()
        self.config = ModelConfig(
            vocab_size=vocab_size,
            context_length=context_length,
            d_model=2,
            num_layers=1,
            num_heads=1,
            d_ff=1,
        )
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen = []

    def forward(self, ids):
        self.seen.append(ids.tolist()[0])
        self.was_training = self.training
        self.had_gradients = torch.is_grad_enabled()
        next_ids = (ids + 1) % self.config.vocab_size
        return 50.0 * torch.nn.functional.one_hot(next_ids, self.config.vocab_size).float()


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_greedy_equals_a_plain_loop_over_the_model(model):
    ids = [3, 1]
    for _ in range(12):
        with torch.no_grad():
            ids.append(int(model(torch.tensor([ids[-8:]]))[0, -1].argmax()))
    assert list(generate(model, [3, 1], 12, temperature=0)) == ids[2:]


def test_sees_the_last_tokens_of_a_text_longer_than_the_context():
    model = FixedModel(context_length=4)
    assert list(generate(model, [0, 0, 0, 0, 0, 2], 4, temperature=0)) == [3, 4, 0, 1]
    assert model.seen == [[0, 0, 0, 2], [0, 0, 2, 3], [0, 2, 3, 4], [2, 3, 4, 0]]


def test_stops_at_the_end_of_text_and_does_not_yield_it():
    assert list(generate(FixedModel(), [0], 100, temperature=0, eos_id=3)) == [1, 2]


def test_yields_each_token_before_the_next_is_computed():
    model = FixedModel()
    stream = generate(model, [0], 3, temperature=0)
    assert model.seen == []
    assert next(stream) == 1
    assert len(model.seen) == 1


def test_the_same_seed_gives_the_same_text_and_another_seed_another(model):
    texts = [list(generate(model, [1], 30, generator=seeded(seed))) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("training", [True, False])
def test_leaves_the_mode_of_the_model_and_of_autograd_alone(training):
    model = FixedModel().train(training)
    for _ in generate(model, [0], 2):
        assert model.training is training  # also while the consumer works
        assert torch.is_grad_enabled()
        assert not model.was_training
        assert not model.had_gradients
    assert model.training is training


@pytest.mark.parametrize(
    ("arguments", "options", "named"),
    [
        (([], 3), {}, "prompt_ids is empty"),
        (([17], 3), {}, "17"),
        (([-1], 3), {}, "-1"),
        (([1], -1), {}, "-1"),
        (([1], 3), {"eos_id": 99}, "99"),
        (([1], 3), {"temperature": -0.5}, "-0.5"),
        (([1], 3), {"temperature": math.nan}, "nan"),
        (([1], 3), {"temperature": math.inf}, "inf"),
        (([1], 3), {"top_p": 0.0}, "0.0"),
        (([1], 3), {"top_p": 1.5}, "1.5"),
        (([1], 3), {"top_p": math.nan}, "nan"),
    ],
)
def test_arguments_out_of_range_are_refused_at_the_call(model, arguments, options, named):
    with pytest.raises(ValueError, match=named):
        generate(model, *arguments, **options)  # nothing was asked of the iterator yet


def test_no_new_tokens_is_an_empty_text(model):
    assert list(generate(model, [1], 0)) == []


def test_damaged_weights_are_named():
    with pytest.raises(ValueError, match="not finite"):
        sample_token(torch.tensor([0.0, math.nan]))


# The sampler against the distribution that it is meant to draw from.

# Upper 0.1 % points of the chi-square distribution, by degrees of freedom (any table of it).
CHI_SQUARE_999 = {2: 13.82, 4: 18.47, 5: 20.52}


def exact_distribution(logits, temperature, top_p):
    """Softmax and nucleus, spelled out in Python's floats."""
    weights = [math.exp(logit / temperature) for logit in logits]
    probabilities = {i: weight / sum(weights) for i, weight in enumerate(weights)}
    kept, mass = {}, 0.0
    for i in sorted(probabilities, key=lambda i: (-probabilities[i], i)):
        if mass >= top_p:
            break
        kept[i] = probabilities[i]
        mass += probabilities[i]
    return {i: probability / mass for i, probability in kept.items()}


@pytest.mark.parametrize(
    ("temperature", "top_p"), [(1.0, 1.0), (0.7, 1.0), (2.5, 1.0), (1.0, 0.9), (0.8, 0.7)]
)
def test_samples_follow_the_exact_distribution(temperature, top_p):
    logits = [0.3, -1.0, 1.2, 0.0, 0.9, -0.4]
    expected = exact_distribution(logits, temperature, top_p)
    assert len(expected) - 1 in CHI_SQUARE_999
    draws, generator = 6000, seeded(3)
    counts = [0] * len(logits)
    for _ in range(draws):
        token = sample_token(
            torch.tensor(logits), temperature=temperature, top_p=top_p, generator=generator
        )
        counts[token] += 1
    assert {i for i, count in enumerate(counts) if count} <= set(expected)
    statistic = sum((counts[i] - draws * p) ** 2 / (draws * p) for i, p in expected.items())
    assert statistic < CHI_SQUARE_999[len(expected) - 1]
    # The test can fail: the same counts do not pass for another temperature.
    other = exact_distribution(logits, temperature * 2, 1.0)
    assert sum((counts[i] - draws * p) ** 2 / (draws * p) for i, p in other.items()) > 30


@given(
    weights=st.lists(st.integers(0, 8), min_size=1, max_size=12).filter(any),
    top_p=st.floats(0.01, 1.0),
)
@settings(deadline=None)
def test_the_nucleus_is_the_smallest_set_that_reaches_p(weights, top_p):
    # Eighths of a power of two: all sums are exact, ties and hits of the bound included.
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
    assert mass - float(kept[inside].min()) < top_p  # without its unlikeliest it falls short
    if not inside.all():
        assert probabilities[~inside].max() <= kept[inside].min()


def test_the_nucleus_ends_where_the_sum_is_exactly_p():
    probabilities = torch.tensor([0.125, 0.5, 0.25, 0.125])
    assert keep_nucleus(probabilities, 0.75).tolist() == [0, 0.5, 0.25, 0]
    assert keep_nucleus(probabilities, 1e-9).tolist() == [0, 0.5, 0, 0]


@pytest.mark.parametrize("temperature", [1e-30, 1e-3, 1e30])
def test_extreme_temperatures_make_no_infinities(temperature):
    token = sample_token(
        torch.tensor([1.0, 3e4, -3e4]), temperature=temperature, generator=seeded()
    )
    assert token in range(3)
    if temperature < 1:
        assert token == 1
