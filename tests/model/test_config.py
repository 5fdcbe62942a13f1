"""The configuration of the model: its defaults, and the values that it refuses."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from cs336_basics.model import ModelConfig


def test_the_defaults_are_the_tinystories_model():
    config = ModelConfig()
    assert (config.vocab_size, config.context_length) == (10_000, 256)
    assert (config.d_model, config.num_layers, config.num_heads) == (512, 4, 16)
    assert (config.d_ff, config.rope_theta, config.norm_eps) == (1344, 10_000.0, 1e-5)
    # 2 * 10,000 * 512 embedding and head, 4 blocks, nine gains of 512.
    assert config.num_parameters() == 22_696_448


WHOLE = ("vocab_size", "context_length", "d_model", "num_layers", "num_heads", "d_ff")


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("value", [0, -3])
def test_config_refuses_sizes_below_one(name, value):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not {value}"):
        ModelConfig(**{name: value})


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("value", [2.0, "8", True, None])
def test_config_refuses_sizes_of_another_type(name, value):
    with pytest.raises(TypeError, match=f"{name} must be an integer, not {value!r}"):
        ModelConfig(**{name: value})


@pytest.mark.parametrize("name", ["rope_theta", "norm_eps"])
def test_config_refuses_bad_numbers(name):
    for value in (0, -1.0, math.nan, math.inf, 10**400, 1e60, 1e-300):
        with pytest.raises(ValueError, match=f"{name} must be positive and finite"):
            ModelConfig(**{name: value})
    with pytest.raises(TypeError, match=f"{name} must be a number, not '1e4'"):
        ModelConfig(**{name: "1e4"})


def test_config_refuses_a_bad_soft_cap():
    for value in (0, -1.0, math.nan, math.inf, 10**400, 1e60, 1e-300):
        with pytest.raises(ValueError, match="logit_soft_cap must be positive and finite"):
            ModelConfig(logit_soft_cap=value)
    with pytest.raises(TypeError, match="logit_soft_cap must be a number, not True"):
        ModelConfig(logit_soft_cap=True)


@pytest.mark.parametrize("name", ["qk_norm", "tied_embeddings", "zero_init"])
@pytest.mark.parametrize("value", [0, 1, "yes", None])
def test_config_refuses_switches_of_another_type(name, value):
    with pytest.raises(TypeError, match=f"{name} must be true or false, not {value!r}"):
        ModelConfig(**{name: value})


@pytest.mark.parametrize("name", ["norm", "position", "ffn", "attention"])
@pytest.mark.parametrize("value", ["", "PRE", "relu", None, ["pre"]])
def test_config_refuses_unknown_names(name, value):
    with pytest.raises(ValueError, match=f"{name} must be one of"):
        ModelConfig(**{name: value})


def test_config_refuses_numbers_of_heads_that_do_not_fit():
    with pytest.raises(ValueError, match="7 does not divide 512"):
        ModelConfig(num_heads=7)
    with pytest.raises(ValueError, match="d_model / num_heads must be even, not 6 / 2 = 3"):
        ModelConfig(d_model=6, num_heads=2)
    assert ModelConfig(d_model=6, num_heads=2, position="none").d_head == 3


def test_config_checks_replaced_values():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ModelConfig().num_heads = 7
    with pytest.raises(ValueError, match="num_heads"):
        dataclasses.replace(ModelConfig(), num_heads=7)


def test_numpy_numbers_become_plain_ones():
    config = ModelConfig(vocab_size=np.int64(300), norm_eps=np.float32(0.5))
    assert (type(config.vocab_size), type(config.norm_eps)) == (int, float)
    assert config == ModelConfig(vocab_size=300, norm_eps=0.5)
