from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics.generation import (
    generate,
    generate_batch,
    keep_likely,
    keep_nucleus,
    keep_top_k,
    next_window,
    penalize_repetition,
    sample_token,
    stop_at,
    stream_text,
)
from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.tokenizer import Tokenizer

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


def plain_greedy(model, prompt, count, penalty=1.0):
    """The stated policy in a loop of its own: a full context is cut to its last half."""
    context = model.config.context_length
    window, ids = list(prompt)[-context:], []
    for _ in range(count):
        with torch.no_grad():
            logits = model(torch.tensor([window]))[0, -1].tolist()
        for seen in {*prompt, *ids}:
            logits[seen] *= penalty if logits[seen] < 0 else 1 / penalty
        token_id = max(range(len(logits)), key=lambda i: logits[i])
        ids.append(token_id)
        window.append(token_id)
        if len(window) > context:
            window = window[-max(1, context // 2) :]
    return ids


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("prompt", [[3], [3, 1], list(range(7)), list(range(8)), list(range(16))])
def test_greedy_equals_a_plain_loop_over_the_model(model, prompt, use_cache):
    expected = plain_greedy(model, prompt, 30)
    assert list(generate(model, prompt, 30, temperature=0, use_cache=use_cache)) == expected
    assert len(set(expected)) > 2  # a model that always says the same would prove little


VARIANTS = [
    {},
    {"norm": "post"},
    {"norm": "none"},
    {"position": "none"},
    {"attention": "reference"},
    {"context_length": 1},
    {"context_length": 2},
    {"context_length": 7},
]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_the_cache_changes_nothing(variant):
    torch.manual_seed(1)
    model = TransformerLM(dataclasses.replace(CONFIG, **variant))
    for seed, options in enumerate([{"temperature": 0}, {}, {"temperature": 0.7, "top_p": 0.9}]):
        texts = [
            list(
                generate(model, [5, 2, 9], 40, generator=seeded(seed), use_cache=cached, **options)
            )
            for cached in (True, False)
        ]
        assert texts[0] == texts[1]
        assert len(texts[0]) == 40


@settings(deadline=None, max_examples=30)
@given(
    prompts=st.lists(st.lists(st.integers(0, 16), min_size=1, max_size=20), max_size=5),
    count=st.integers(0, 25),
    eos_id=st.none() | st.integers(0, 16),
    use_cache=st.booleans(),
)
def test_a_batch_gives_what_its_prompts_give_alone(model, prompts, count, eos_id, use_cache):
    alone = [
        list(generate(model, prompt, count, eos_id=eos_id, generator=seeded(i), use_cache=False))
        for i, prompt in enumerate(prompts)
    ]
    together = generate_batch(
        model,
        prompts,
        count,
        eos_id=eos_id,
        generators=[seeded(i) for i in range(len(prompts))],
        use_cache=use_cache,
    )
    assert together == alone


def test_a_batch_refuses_the_wrong_number_of_generators(model):
    with pytest.raises(ValueError, match="1 generators for 2 prompts"):
        generate_batch(model, [[1], [2]], 3, generators=[seeded()])
    with pytest.raises(ValueError, match="prompt_ids is empty"):
        generate_batch(model, [[1], []], 3)


def test_goes_on_from_the_last_half_of_a_full_context():
    model = FixedModel(context_length=4)
    new_ids = generate(model, [0, 0, 0, 0, 0, 2], 4, temperature=0, use_cache=False)
    assert list(new_ids) == [3, 4, 0, 1]
    assert model.seen == [[0, 0, 0, 2], [2, 3], [2, 3, 4], [2, 3, 4, 0]]


def test_windows():
    assert next_window([1, 2], 3, 3) == [1, 2, 3]
    assert next_window([1, 2, 3], 4, 3) == [4]
    assert next_window([1, 2, 3, 4], 5, 4) == [4, 5]
    assert next_window([1], 2, 1) == [2]


def test_stops_at_the_end_of_text_and_does_not_yield_it():
    assert list(generate(FixedModel(), [0], 100, temperature=0, eos_id=3, use_cache=False)) == [
        1,
        2,
    ]


def test_yields_each_token_before_the_next_is_computed():
    model = FixedModel()
    stream = generate(model, [0], 3, temperature=0, use_cache=False)
    assert model.seen == []
    assert next(stream) == 1
    assert len(model.seen) == 1


def test_the_same_seed_gives_the_same_text_and_another_seed_another(model):
    texts = [list(generate(model, [1], 30, generator=seeded(seed))) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("training", [True, False])
def test_leaves_the_mode_of_the_model_and_of_autograd_alone(training):
    model = FixedModel().train(training)
    for _ in generate(model, [0], 2, use_cache=False):
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
        (([1], 3), {"top_k": 0}, "top_k is 0"),
        (([1], 3), {"min_p": -0.1}, "min_p is -0.1"),
        (([1], 3), {"min_p": 1.1}, "min_p is 1.1"),
        (([1], 3), {"repetition_penalty": 0.0}, "repetition_penalty is 0.0"),
        (([1], 3), {"repetition_penalty": math.inf}, "repetition_penalty is inf"),
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
CHI_SQUARE_999 = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47, 5: 20.52}

LOGITS = [0.3, -1.0, 1.2, 0.0, 0.9, -0.4]
PREVIOUS = (2, 5, 2)  # the text so far, for the repetition penalty


def exact_distribution(temperature=1.0, top_k=None, top_p=1.0, min_p=0.0, repetition_penalty=1.0):
    """The sampler spelled out in Python's floats."""
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
def test_samples_follow_the_exact_distribution(options):
    expected = exact_distribution(**options)
    draws, generator = 6000, seeded(3)
    counts = [0] * len(LOGITS)
    for _ in range(draws):
        token = sample_token(
            torch.tensor(LOGITS), previous_ids=PREVIOUS, generator=generator, **options
        )
        counts[token] += 1
    assert {i for i, count in enumerate(counts) if count} <= set(expected)
    statistic = sum((counts[i] - draws * p) ** 2 / (draws * p) for i, p in expected.items())
    assert statistic < CHI_SQUARE_999[len(expected) - 1]
    # The test can fail: the same counts do not pass for another temperature.
    other = exact_distribution(temperature=options.get("temperature", 1.0) * 2)
    assert sum((counts[i] - draws * p) ** 2 / (draws * p) for i, p in other.items()) > 30


def test_the_penalty_looks_at_the_whole_text(model):
    # Far beyond the context length, and in the prompt.
    prompt = [4, 7, *[3] * 10]
    expected = plain_greedy(model, prompt, 40, penalty=1.3)
    assert list(generate(model, prompt, 40, temperature=0, repetition_penalty=1.3)) == expected
    assert expected != plain_greedy(model, prompt, 40)


def test_the_penalty_by_hand():
    logits = torch.tensor([2.0, -2.0, 0.0, 1.0])
    assert penalize_repetition(logits, [0, 1, 0], 2.0).tolist() == [1.0, -4.0, 0.0, 1.0]
    assert penalize_repetition(logits, [], 2.0).tolist() == logits.tolist()
    assert logits.tolist() == [2.0, -2.0, 0.0, 1.0]


def test_top_k_and_min_p_by_hand():
    probabilities = torch.tensor([0.25, 0.125, 0.25, 0.375])
    assert keep_top_k(probabilities, 1).tolist() == [0, 0, 0, 0.375]
    assert keep_top_k(probabilities, 2).tolist() == [0.25, 0, 0, 0.375]  # of equals, the lower id
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


# From tokens to text.


def stopped(text, stop):
    """The rule of stop_at, character by character."""
    for end in range(1, len(text) + 1):
        found = [string for string in stop if text[:end].endswith(string)]
        if found:
            return text[: end - max(map(len, found))]
    return text


@settings(deadline=None)
@given(
    pieces=st.lists(st.text("ab", max_size=4), max_size=12),
    stop=st.lists(st.text("ab", min_size=1, max_size=5), max_size=3),
)
def test_stop_strings_lie_across_pieces_in_any_way(pieces, stop):
    assert "".join(stop_at(pieces, stop)) == stopped("".join(pieces), stop)


def test_nothing_is_held_back_longer_than_it_must_be():
    passed = stop_at(iter(["one", " two", "\n", "\nthree", "\n\n", "never"]), ["\n\n\n", "e\n\n"])
    # "e" could begin "e\n\n", and a line break "\n\n\n", until the next piece says otherwise.
    assert list(passed) == ["on", "e two", "", "\n\nthre", ""]


def test_no_piece_is_asked_for_after_the_stop():
    def pieces():
        yield "a"
        yield "b"
        raise AssertionError("asked for")

    assert "".join(stop_at(pieces(), ["b"])) == "a"


def test_an_empty_stop_string_is_refused_at_the_call():
    with pytest.raises(ValueError, match="stop string is empty"):
        stop_at(["a"], ["x", ""])


def test_text_streams_in_whole_characters():
    tokenizer = Tokenizer({byte: bytes([byte]) for byte in range(256)}, [])
    pieces = list(stream_text(tokenizer, "a€b".encode()))
    assert pieces == ["a", "", "", "€", "b", ""]
    assert "".join(stop_at(stream_text(tokenizer, "a€b€".encode()), ["b€"])) == "a€"
