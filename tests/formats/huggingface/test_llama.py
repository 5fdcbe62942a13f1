"""Configurations and weights are translated to Llama's names and layout, and back."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import torch

import cs336_basics
from cs336_basics.formats.huggingface.llama import (
    config_from_llama,
    llama_config,
    llama_state,
    state_from_llama,
)
from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.training.config_files import load_config
from tests.errors import rejects
from tests.formats.models import random_model

SMALL = ModelConfig(
    vocab_size=31,
    context_length=12,
    d_model=24,
    num_layers=2,
    num_heads=3,
    d_ff=20,
    rope_theta=500.0,
    norm_eps=1e-4,
)


@pytest.mark.parametrize("qk_norm", [False, True])
@pytest.mark.parametrize("num_heads", [1, 3, 12])
def test_config_and_weights_survive_export_and_import(qk_norm, num_heads):
    config = dataclasses.replace(SMALL, qk_norm=qk_norm, num_heads=num_heads)
    model = random_model(config=config)
    found = config_from_llama(llama_config(config))
    assert found == config
    state = state_from_llama(found, llama_state(config, model.state_dict()))
    assert state.keys() == model.state_dict().keys()
    for name, value in model.state_dict().items():
        assert torch.equal(state[name], value), name


def test_only_queries_and_keys_are_permuted_within_heads():
    config = dataclasses.replace(SMALL, num_heads=3)  # d_head 8
    model = random_model(config=config)
    own, theirs = model.state_dict(), llama_state(config, model.state_dict())
    order = [head * 8 + i for head in range(3) for i in (0, 2, 4, 6, 1, 3, 5, 7)]
    for part in ("q_proj", "k_proj"):
        weight = own[f"layers.1.attn.{part}.weight"]
        assert torch.equal(theirs[f"model.layers.1.self_attn.{part}.weight"], weight[order])
    for ours, other in (
        ("attn.v_proj", "self_attn.v_proj"),
        ("attn.output_proj", "self_attn.o_proj"),
        ("ffn.w1", "mlp.gate_proj"),
        ("ffn.w2", "mlp.down_proj"),
        ("ffn.w3", "mlp.up_proj"),
        ("ln1", "input_layernorm"),
        ("ln2", "post_attention_layernorm"),
    ):
        assert torch.equal(theirs[f"model.layers.0.{other}.weight"], own[f"layers.0.{ours}.weight"])


def test_tied_embeddings_become_two_matrices_with_the_scale_in_the_first():
    config = dataclasses.replace(SMALL, tied_embeddings=True)
    model = random_model(config=config)
    theirs = llama_state(config, model.state_dict())
    table = model.token_embeddings.weight
    assert torch.equal(theirs["lm_head.weight"], table)
    assert torch.equal(theirs["model.embed_tokens.weight"], table * math.sqrt(24))
    assert llama_config(config)["tie_word_embeddings"] is False
    untied = config_from_llama(llama_config(config))
    other = TransformerLM(untied)
    other.load_state_dict(state_from_llama(untied, theirs))
    ids = torch.arange(10)[None]
    torch.testing.assert_close(other(ids), model(ids))


def test_tied_embeddings_without_a_scale_stay_tied():
    tied = dataclasses.replace(SMALL, tied_embeddings=True, embedding_scale=1.0)
    assert config_from_llama(llama_config(tied)) == tied
    theirs = llama_state(SMALL, random_model(config=SMALL).state_dict())
    with rejects(None, "'lm_head.weight'"):
        state_from_llama(tied, theirs)
    del theirs["lm_head.weight"]
    with rejects(None, "'lm_head.weight'"):
        state_from_llama(SMALL, theirs)
    for head in ({}, {"lm_head.weight": theirs["model.embed_tokens.weight"].clone()}):
        state = state_from_llama(tied, {**theirs, **head})
        assert llama_state(tied, state).keys() == theirs.keys()


def test_a_scale_of_separate_embeddings_is_exported_in_the_table():
    scaled = dataclasses.replace(SMALL, embedding_scale=3.0)
    model = random_model(config=scaled)
    theirs = llama_state(scaled, model.state_dict())
    assert torch.equal(theirs["model.embed_tokens.weight"], model.token_embeddings.weight * 3)
    assert torch.equal(theirs["lm_head.weight"], model.lm_head.weight)


LLAMA_3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"model_type": "gpt2"}, ("model_type", "'gpt2'")),
        ({"model_type": ["llama"]}, ("model_type", "['llama']")),
        ({"num_key_value_heads": 5}, ("num_key_value_heads", 5)),
        ({"num_key_value_heads": 0}, ("num_key_value_heads", 0)),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, ("low_freq_factor",)),
        ({"rope_parameters": {**LLAMA_3, "factor": "8"}}, ("rope_scaling", "'8'")),
        ({"rope_parameters": {**LLAMA_3, "high_freq_factor": 1.0}}, ("rope_scaling", "1.0")),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 8.0}}, ("rope_type", "'yarn'")),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": None},
            ("rope_type", "'linear'"),
        ),
        ({"rope_scaling": {"rope_type": "linear", "factor": 4.0}}, ("rope_parameters",)),
        ({"rope_scaling": {"rope_type": "default", "rope_theta": 5e5}}, ("rope_theta",)),
        ({"rope_scaling": "linear", "rope_parameters": None}, ("rope_scaling", "'linear'")),
        ({"rope_theta": 10**400, "rope_parameters": None}, ("rope_theta",)),
        ({"rms_norm_eps": 10**400}, ("rms_norm_eps",)),
        ({"rope_parameters": 7}, ("rope_parameters", 7)),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, ("partial_rotary_factor", 0.5)),
        ({"hidden_act": "gelu"}, ("hidden_act", "'gelu'")),
        ({"attention_bias": True}, ("attention_bias", True)),
        ({"mlp_bias": True}, ("mlp_bias", True)),
        ({"use_sliding_window": True}, ("use_sliding_window", True)),
        (
            {"layer_types": ["full_attention", "sliding_attention"]},
            ("layer_types", "sliding_attention"),
        ),
        ({"layer_types": 3}, ("layer_types", 3)),
        ({"quantization_config": {"bits": 4}}, ("quantization_config", "{'bits': 4}")),
        ({"head_dim": 7}, ("head_dim", 7)),
        ({"hidden_size": "24"}, ("hidden_size", "'24'")),
        ({"rms_norm_eps": "1e-5"}, ("rms_norm_eps", "'1e-5'")),
        ({"rope_theta": "1e4", "rope_parameters": None}, ("rope_theta", "'1e4'")),
        ({"rope_theta": "x"}, ("rope_theta", "'x'")),  # differs from rope_parameters
        ({"rope_theta": 501.0}, ("rope_theta", 501.0)),
        ({"partial_rotary_factor": 0.5}, ("partial_rotary_factor", 0.5)),
        ({"tie_word_embeddings": 1}, ("tie_word_embeddings", 1)),
        ({"tie_word_embeddings": None}, ("tie_word_embeddings", None)),
        ({"hidden_size": -24}, ("hidden_size", -24)),
        ({"num_attention_heads": 5, "head_dim": None}, ("num_attention_heads", 5)),
        ({"rms_norm_eps": float("nan")}, ("rms_norm_eps", "nan")),
        ({"vocab_size": None}, ("vocab_size", None)),
    ],
)
def test_a_configuration_that_cannot_be_represented_is_refused(changes, fields):
    content = {**llama_config(SMALL), **changes}
    with rejects(*fields):
        config_from_llama(content)


@pytest.mark.parametrize("key", ["vocab_size", "hidden_size", "max_position_embeddings"])
def test_a_configuration_without_a_size_is_refused(key):
    content = llama_config(SMALL)
    del content[key]
    with rejects(key):
        config_from_llama(content)


def test_weights_that_do_not_fit_the_configuration_are_refused():
    state = llama_state(SMALL, random_model(config=SMALL).state_dict())
    name = "model.layers.1.mlp.up_proj.weight"
    with rejects(None, "(20, 24)", "(20, 23)"):
        state_from_llama(SMALL, {**state, name: state[name][:, :-1]})
    with rejects(None, "torch.int8"):
        state_from_llama(SMALL, {**state, name: state[name].to(torch.int8)})
    with rejects(None, "'model.layers.0.bias'"):
        state_from_llama(SMALL, {**state, "model.layers.0.bias": state[name]})
    for num_layers in (10**9, len(state)):
        many = dataclasses.replace(SMALL, num_layers=num_layers)
        with rejects(None, "'model.layers.2."):
            state_from_llama(many, state)
    without = {key: value for key, value in state.items() if key != name}
    with rejects(None, f"'{name}'"):
        state_from_llama(SMALL, without)


def test_weights_in_16_bits_become_float32():
    state = llama_state(SMALL, random_model(config=SMALL).state_dict())
    halves = {name: value.to(torch.bfloat16) for name, value in state.items()}
    found = state_from_llama(SMALL, halves)
    assert {value.dtype for value in found.values()} == {torch.float32}


def test_equal_rope_scaling_and_rope_parameters_are_accepted():
    content = llama_config(SMALL)
    assert config_from_llama({**content, "rope_scaling": content["rope_parameters"]}) == SMALL


def test_only_the_exportable_speedrun_can_be_exported():
    configs = Path(cs336_basics.__file__).parent / "configs"
    exportable = load_config(configs / "speedrun-exportable.yaml").model
    assert llama_config(exportable)["model_type"] == "qwen3"
    with rejects("logit_soft_cap"):
        llama_config(load_config(configs / "speedrun.yaml").model)
