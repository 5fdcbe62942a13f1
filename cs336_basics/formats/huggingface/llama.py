"""Translate configurations and state dicts to and from Hugging Face's Llama and Qwen3.

This library's default model is a Llama (Touvron et al. 2023). With `qk_norm`, it is a Qwen3, whose
attention normalizes queries and keys in the same way. This module does not import transformers.
The layout was checked with transformers 5.23.0.

Two things differ. Our RoPE rotates features 2k and 2k + 1 of a head; Hugging Face's rotates
features k and k + d_head / 2. The rows of the query and key matrices and the gains of QK-norm are
therefore permuted. Only this library scales tied embeddings by sqrt(d_model), so they are exported
as two matrices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.validation import build
from cs336_basics.model.config import ModelConfig
from cs336_basics.model.shapes import weights

_TOP = {
    "token_embeddings.weight": "model.embed_tokens.weight",
    "ln_final.weight": "model.norm.weight",
    "lm_head.weight": "lm_head.weight",
}
_LAYER = {
    "ln1": "input_layernorm",
    "ln2": "post_attention_layernorm",
    "attn.q_proj": "self_attn.q_proj",
    "attn.k_proj": "self_attn.k_proj",
    "attn.v_proj": "self_attn.v_proj",
    "attn.output_proj": "self_attn.o_proj",
    "attn.q_norm": "self_attn.q_norm",
    "attn.k_norm": "self_attn.k_norm",
    "ffn.w1": "mlp.gate_proj",
    "ffn.w3": "mlp.up_proj",
    "ffn.w2": "mlp.down_proj",
}
_ROTATED = ("attn.q_proj", "attn.k_proj", "attn.q_norm", "attn.k_norm")


def check_is_llama(config: ModelConfig) -> None:
    """Raise ValueError unless Llama or Qwen3 can represent a model."""
    for switch, value, needed in (
        ("norm", config.norm, "pre"),
        ("position", config.position, "rope"),
        ("ffn", config.ffn, "swiglu"),
        ("logit_soft_cap", config.logit_soft_cap, None),
    ):
        if value != needed:
            raise InputError(
                f"must be {needed!r} to export a model as a Llama or Qwen3, got {value!r}",
                argument=switch,
            )


def llama_config(config: ModelConfig) -> dict[str, Any]:
    """Return the content of a model's `config.json`, without the ids of special tokens.

    Raises:
        ValueError: See `check_is_llama`.
    """
    check_is_llama(config)
    kind = "qwen3" if config.qk_norm else "llama"
    return {
        "architectures": [{"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM"}[kind]],
        "model_type": kind,
        "vocab_size": config.vocab_size,
        "hidden_size": config.d_model,
        "intermediate_size": config.d_ff,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_heads,
        "head_dim": config.d_head,
        "hidden_act": "silu",
        "max_position_embeddings": config.context_length,
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope_theta,
        "rope_parameters": {"rope_theta": config.rope_theta, "rope_type": "default"},
        "attention_bias": False,
        "attention_dropout": 0.0,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "initializer_range": 0.02,
        "use_cache": True,
        "torch_dtype": "float32",
    }


def llama_state(
    config: ModelConfig, state: Mapping[str, Tensor], *, halves: bool = True
) -> dict[str, Tensor]:
    """Convert our state dict to Llama's names and layout.

    Args:
        config: Configuration of the model.
        state: State dict of a TransformerLM.
        halves: Whether to permute queries and keys for Hugging Face. If false, they keep our order,
            which the original Llama also uses.

    Raises:
        ValueError: See `check_is_llama`.
    """
    check_is_llama(config)
    found: dict[str, Tensor] = {}
    for name, value in state.items():
        permuted = halves and _is_rotated(name)
        found[_theirs(name)] = _halves(value, config) if permuted else value
    if config.tied_embeddings:
        table = found[_TOP["token_embeddings.weight"]]
        found[_TOP["lm_head.weight"]] = table
        found[_TOP["token_embeddings.weight"]] = table * math.sqrt(config.d_model)
    return {name: value.detach().contiguous() for name, value in found.items()}


def config_from_llama(content: Mapping[str, Any]) -> ModelConfig:
    """Convert the content of a `config.json` to a model configuration.

    Raises:
        ValueError: If the model is not a Llama or Qwen3, or has a feature that TransformerLM does
            not have, such as biases, scaled RoPE, another activation function or quantized weights.
    """
    kind = content.get("model_type")
    if kind not in ("llama", "qwen3"):
        raise InputError(
            f"must be 'llama' or 'qwen3', got {short_repr(kind)}", argument="model_type"
        )
    rope = content.get("rope_parameters") or content.get("rope_scaling") or {}
    if not isinstance(rope, dict) or (content.get("rope_scaling") or rope) != rope:
        raise InputError(
            f"must be an object and equal rope_scaling, got {short_repr(rope)}",
            argument="rope_parameters",
        )
    theta = content.get("rope_theta")
    theta = rope.get("rope_theta", 10_000.0) if theta is None else theta
    layer_types = content.get("layer_types") or []
    is_full = isinstance(layer_types, list) and all(t == "full_attention" for t in layer_types)
    tied = content.get("tie_word_embeddings", False)
    if not isinstance(tied, bool):
        raise InputError(
            f"must be true or false, got {short_repr(tied)}", argument="tie_word_embeddings"
        )
    for key, value, needed in (
        ("rope_type", rope.get("rope_type", rope.get("type", "default")), "default"),
        ("rope_theta", theta, rope.get("rope_theta", theta)),
        ("partial_rotary_factor", rope.get("partial_rotary_factor", 1.0), 1.0),
        ("partial_rotary_factor", content.get("partial_rotary_factor", 1.0), 1.0),
        ("hidden_act", content.get("hidden_act", "silu"), "silu"),
        ("attention_bias", content.get("attention_bias", False), False),
        ("mlp_bias", content.get("mlp_bias", False), False),
        ("use_sliding_window", content.get("use_sliding_window", False), False),
        ("layer_types", "full_attention" if is_full else layer_types, "full_attention"),
        ("quantization_config", content.get("quantization_config"), None),
    ):
        if value != needed:
            raise InputError(f"must be {needed!r}, got {short_repr(value)}", argument=key)
    try:
        values = {
            "vocab_size": content["vocab_size"],
            "context_length": content["max_position_embeddings"],
            "d_model": content["hidden_size"],
            "num_layers": content["num_hidden_layers"],
            "num_heads": content["num_attention_heads"],
            "d_ff": content["intermediate_size"],
            "rope_theta": theta,
            "norm_eps": content.get("rms_norm_eps", 1e-6),
            "qk_norm": kind == "qwen3",
        }
    except KeyError as error:
        raise InputError("is missing", argument=error.args[0]) from None
    config = build(ModelConfig, values)
    for key, only in (("head_dim", config.d_head), ("num_key_value_heads", config.num_heads)):
        if content.get(key) not in (None, only):
            raise InputError(f"must be {only}, got {short_repr(content[key])}", argument=key)
    return config


def state_from_llama(
    config: ModelConfig, state: Mapping[str, Tensor], *, tied: bool = False
) -> dict[str, Tensor]:
    """Convert Llama's state dict to our names and layout, in float32; the inverse of `llama_state`.

    Args:
        config: Configuration from `config_from_llama`.
        state: State dict of a Llama.
        tied: Whether its embeddings are tied. Tied embeddings become two matrices.

    Raises:
        ValueError: If a tensor is missing or unknown, or has the wrong shape or dtype, or if tied
            embeddings differ from the head.
    """
    given = dict(state)
    if tied and (embeddings := given.get("model.embed_tokens.weight")) is not None:
        head = given.setdefault("lm_head.weight", embeddings)
        if not torch.equal(head, embeddings):
            raise InputError(
                "tensor 'lm_head.weight' differs from the embeddings, but tie_word_embeddings is "
                "true",
                remedy="remove the tensor, or set tie_word_embeddings to false",
            )
    found: dict[str, Tensor] = {}
    expected = ((name, weight.shape) for weight in weights(config) for name in weight.names())
    for name, shape in expected:  # the first missing tensor ends a loop over a billion layers
        theirs = _theirs(name)
        value = given.pop(theirs, None)
        if value is None:
            raise InputError(f"tensor {theirs!r} is missing")
        if value.shape != shape or value.dtype not in _FLOATS:
            raise InputError(
                f"tensor {theirs!r} must be floating point of shape {shape}, got {value.dtype} of "
                f"shape {tuple(value.shape)}"
            )
        value = value.to(torch.float32)
        found[name] = (_pairs(value, config) if _is_rotated(name) else value).contiguous()
    unknown = [name for name in given if not name.endswith("rotary_emb.inv_freq")]
    if unknown:
        raise InputError(f"tensor {short_repr(unknown[0])} has no counterpart in TransformerLM")
    return found


_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _theirs(name: str) -> str:
    """Translate our name for a weight, such as `layers.N.attn.q_proj.weight`, to Llama's."""
    if name in _TOP:
        return _TOP[name]
    _, number, rest = name.split(".", 2)
    return f"model.layers.{number}.{_LAYER[rest.removesuffix('.weight')]}.weight"


def _is_rotated(name: str) -> bool:
    return any(f".{part}." in name for part in _ROTATED)


def _halves(weight: Tensor, config: ModelConfig) -> Tensor:
    """Reorder the features of each head from pairs (2k, 2k + 1) to (k, k + d_head / 2)."""
    rows = weight.view(-1, config.d_head // 2, 2, *weight.shape[1:])
    return rows.transpose(1, 2).reshape(weight.shape)


def _pairs(weight: Tensor, config: ModelConfig) -> Tensor:
    """Reorder the features of each head from (k, k + d_head / 2) to pairs (2k, 2k + 1)."""
    rows = weight.view(-1, 2, config.d_head // 2, *weight.shape[1:])
    return rows.transpose(1, 2).reshape(weight.shape)
