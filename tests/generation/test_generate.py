from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics._support.errors import InputTypeError
from cs336_basics.generation import Sampling, generate, generate_batch
from cs336_basics.model import ModelConfig, TransformerLM
from tests.errors import rejects

CONFIG = ModelConfig(
    vocab_size=17, context_length=8, d_model=16, num_layers=2, num_heads=2, d_ff=32
)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    # In float64, rounding does not change which token is drawn.
    return TransformerLM(CONFIG).double()


class FixedModel(torch.nn.Module):
    """A model that predicts the last id plus one and records its inputs."""

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
        self.had_gradients = torch.is_grad_enabled()
        next_ids = (ids + 1) % self.config.vocab_size
        return 50.0 * torch.nn.functional.one_hot(next_ids, self.config.vocab_size).float()


GREEDY = Sampling(temperature=0)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def plain_greedy(model, prompt, count, penalty=1.0):
    """Generate with a simple loop that cuts a full context to its last half, as documented."""
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


@pytest.mark.numerical(seeds=False)
@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("prompt", [[3], [3, 1], list(range(7)), list(range(8)), list(range(16))])
def test_greedy_equals_a_plain_loop_over_the_model(model, prompt, use_cache):
    expected = plain_greedy(model, prompt, 20)
    assert list(generate(model, prompt, 20, GREEDY, use_cache=use_cache)) == expected
    assert len(set(expected)) > 2  # a repeated token would prove little


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


@pytest.mark.numerical(seeds=False)
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_the_cache_does_not_change_the_text(variant):
    torch.manual_seed(1)
    model = TransformerLM(dataclasses.replace(CONFIG, **variant)).double()
    for seed, sampling in enumerate([GREEDY, Sampling(), Sampling(temperature=0.7, top_p=0.9)]):
        texts = [
            list(generate(model, [5, 2, 9], 20, sampling, generator=seeded(seed), use_cache=cached))
            for cached in (True, False)
        ]
        assert texts[0] == texts[1]
        assert len(texts[0]) == 20


@settings(deadline=None, max_examples=30)
@given(
    prompts=st.lists(st.lists(st.integers(0, 16), min_size=1, max_size=20), max_size=5),
    count=st.integers(0, 25),
    eos_id=st.none() | st.integers(0, 16),
    use_cache=st.booleans(),
)
def test_a_batch_equals_generating_each_prompt_alone(model, prompts, count, eos_id, use_cache):
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


def test_a_batch_rejects_bad_arguments(model):
    with rejects("generators", 2, 1):
        generate_batch(model, [[1], [2]], 3, generators=[seeded()])
    with rejects("prompt_ids"):
        generate_batch(model, [[1], []], 3)
    with rejects("max_new_tokens", "-3"):
        generate_batch(model, [], -3)


def test_eos_ends_the_text_and_is_not_yielded():
    new_ids = generate(FixedModel(), [0], 100, GREEDY, eos_id=3, use_cache=False)
    assert list(new_ids) == [1, 2]


def test_each_token_is_yielded_before_the_next_is_computed():
    model = FixedModel()
    stream = generate(model, [0], 3, GREEDY, use_cache=False)
    assert model.seen == []
    assert next(stream) == 1
    assert len(model.seen) == 1


def test_the_seed_determines_the_text(model):
    texts = [list(generate(model, [1], 30, generator=seeded(seed))) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_gradients_are_off_only_in_the_model():
    model = FixedModel()
    for _ in generate(model, [0], 2, use_cache=False):
        assert torch.is_grad_enabled()  # also between two tokens
        assert not model.had_gradients


@pytest.mark.parametrize(
    ("arguments", "options", "fields"),
    [
        (([], 3), {}, ("prompt_ids",)),
        (([17], 3), {}, ("prompt_ids", 17)),
        (([-1], 3), {}, ("prompt_ids", -1)),
        (([1], -1), {}, ("max_new_tokens", -1)),
        (([1], 3), {"eos_id": 99}, ("eos_id", 99)),
    ],
)
def test_arguments_out_of_range_are_rejected_at_the_call(model, arguments, options, fields):
    with rejects(*fields):
        generate(model, *arguments, **options)  # raised before the first `next`


@pytest.mark.parametrize(
    ("prompt", "count", "options"),
    [
        ([1], 2.5, {}),
        ("a", 3, {}),
        ([1], 3, {"eos_id": True}),
        ([1], 3, {"allowed_ids": [1.5]}),
    ],
)
def test_arguments_that_are_not_integers_are_rejected_at_the_call(model, prompt, count, options):
    with pytest.raises(InputTypeError):
        generate(model, prompt, count, **options)
    with pytest.raises(InputTypeError):
        generate_batch(model, [[1], prompt], count, **options)


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0), Sampling(2.0, 3, 0.9, 0.01, 1.3)])
def test_only_allowed_ids_are_drawn(model, sampling):
    (generator, other) = (torch.Generator().manual_seed(3) for _ in range(2))
    options = {"sampling": sampling, "allowed_ids": {2, 3, 5}}
    new_ids = [*generate(model, [1], 40, **options, generator=generator)]
    assert set(new_ids) <= {2, 3, 5}
    assert generate_batch(model, [[1]], 40, **options, generators=[other]) == [new_ids]
    with rejects("allowed_ids"):
        generate(model, [1], 3, allowed_ids=[])
    with rejects("allowed_ids", 99):
        generate(model, [1], 3, allowed_ids=[99])


def test_the_repetition_penalty_covers_the_whole_text(model):
    # The penalty covers the whole prompt, even a prompt that is longer than the context.
    prompt = [4, 7, *[3] * 10]
    expected = plain_greedy(model, prompt, 40, penalty=1.3)
    sampling = Sampling(temperature=0, repetition_penalty=1.3)
    assert list(generate(model, prompt, 40, sampling)) == expected
    assert expected != plain_greedy(model, prompt, 40)


def test_a_prompt_may_be_an_array_of_any_integer_dtype(model):
    expected = list(generate(model, [1, 2, 3], 5, GREEDY))
    for dtype in (np.uint16, np.uint32, np.int64):
        assert list(generate(model, np.array([1, 2, 3], dtype), 5, GREEDY)) == expected
    assert list(generate(model, torch.tensor([1, 2, 3]), 5, GREEDY)) == expected
