"""Defaults and validation of the model configuration."""

from __future__ import annotations

import dataclasses
import math

import pytest

from cs336_basics.model import ModelConfig
from tests.errors import rejects


def test_the_defaults_are_the_tinystories_model():
    config = ModelConfig()
    assert (config.vocab_size, config.context_length) == (10_000, 256)
    assert (config.d_model, config.num_layers, config.num_heads) == (512, 4, 16)
    assert (config.d_ff, config.rope_theta, config.norm_eps) == (1344, 10_000.0, 1e-5)
    # The embedding and the head each have 10,000 * 512 weights, and nine gains have 512 each.
    assert config.num_parameters() == 22_696_448


REJECTED = {
    **dict.fromkeys(
        ("vocab_size", "context_length", "d_model", "num_layers", "num_heads", "d_ff"),
        (0, -3, 2.5, "24", True, None, 2**63),
    ),
    **dict.fromkeys(
        ("rope_theta", "norm_eps", "logit_soft_cap"),
        (0, -1.0, math.nan, math.inf, 10**400, 1e60, 1e-300, "1"),
    ),
    **dict.fromkeys(("qk_norm", "tied_embeddings", "zero_init"), (2, "true", None)),
    **dict.fromkeys(("norm", "position", "ffn", "attention"), ("", "PRE", "relu", None, ["pre"])),
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in REJECTED.items() for value in values]
)
def test_an_invalid_value_is_rejected_by_name(name, value):
    with rejects(name):
        ModelConfig(**{name: value})


def test_heads_that_do_not_divide_the_width_are_rejected():
    with rejects("num_heads", 512, 7):
        ModelConfig(num_heads=7)
    with rejects("num_heads", "6 / 2 = 3"):
        ModelConfig(d_model=6, num_heads=2)
    assert ModelConfig(d_model=6, num_heads=2, position="none").d_head == 3


@pytest.mark.parametrize(
    ("options", "most"),
    [({"position": "none"}, 0), ({"num_heads": 1}, 1), ({"context_length": 2}, 1)],
)
def test_previous_token_heads_are_limited_by_heads_and_positions(options, most):
    with rejects("previous_token_heads", most, 2):
        ModelConfig(previous_token_heads=2, **options)


@pytest.mark.parametrize(
    ("options", "needs"),
    [
        ({}, "previous_token_heads"),
        ({"previous_token_heads": 1, "num_heads": 256}, "at least 4 features, got 2"),
    ],
)
def test_induction_heads_need_a_previous_token_head_and_some_features(options, needs):
    with rejects("induction_heads", needs, "set it to false"):
        ModelConfig(induction_heads=True, **options)


def test_a_configuration_is_frozen_and_replaced_values_are_checked():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ModelConfig().num_heads = 7
    with rejects("num_heads"):
        dataclasses.replace(ModelConfig(), num_heads=7)
