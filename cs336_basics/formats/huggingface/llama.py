"""Translate configurations and state dicts to and from Hugging Face's Llama, Qwen2 and Qwen3.

`family_of` says which of them a model is. This module does not import transformers. The layout was
checked with transformers 5.23.0.

Two things differ. Our RoPE rotates features 2k and 2k + 1 of a head; Hugging Face's rotates
features k and k + d_head / 2. The rows of the query and key matrices, their biases and the gains of
QK-norm are therefore permuted. Only this library scales embeddings. The exported table is the
scaled one, so tied embeddings with a scale are exported as two matrices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.validation import build
from cs336_basics.formats.model_families import FAMILY_NAMES, family_of
from cs336_basics.model.config import ModelConfig
from cs336_basics.model.shapes import named_shapes

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


def llama_config(config: ModelConfig) -> dict[str, Any]:
    """Return the content of a model's `config.json`, without the ids of special tokens.

    Raises:
        ValueError: See `family_of`.
    """
    family = family_of(config)
    scaling: dict[str, Any] = {"rope_type": "default"}
    if config.rope_scaling is not None:
        scaling = {"rope_type": "llama3", **dict(zip(_SCALING, config.rope_scaling, strict=True))}
        scaling[_SCALING[3]] = round(config.rope_scaling[3])  # transformers expects an integer
    return {
        "architectures": [f"{FAMILY_NAMES[family]}ForCausalLM"],
        "model_type": family,
        "vocab_size": config.vocab_size,
        "hidden_size": config.d_model,
        "intermediate_size": config.d_ff,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.d_head,
        "hidden_act": "silu",
        "max_position_embeddings": config.context_length,
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope_theta,
        "rope_parameters": {"rope_theta": config.rope_theta, **scaling},
        # The name that transformers 4 reads.
        "rope_scaling": scaling if config.rope_scaling is not None else None,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "mlp_bias": False,
        "tie_word_embeddings": _is_one_table(config),
        "initializer_range": 0.02,
        "use_cache": True,
        "torch_dtype": "float32",
    }


_SCALING = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
"""Hugging Face's names for the values of `ModelConfig.rope_scaling`."""


def _is_one_table(config: ModelConfig) -> bool:
    """Return whether the embedding and the head are one table in Hugging Face's layout, too."""
    return config.tied_embeddings and config.embedding_factor == 1


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
        ValueError: See `family_of`.
    """
    family_of(config)
    found: dict[str, Tensor] = {}
    for name, value in state.items():
        permuted = halves and _is_rotated(name)
        found[llama_name(name)] = _halves(value, config) if permuted else value
    if config.embedding_factor != 1:
        table = found[_TOP["token_embeddings.weight"]]
        found.setdefault(_TOP["lm_head.weight"], table)
        found[_TOP["token_embeddings.weight"]] = table * config.embedding_factor
    return {name: value.detach().contiguous() for name, value in found.items()}


def config_from_llama(content: Mapping[str, Any]) -> ModelConfig:
    """Convert the content of a `config.json` to a model configuration.

    Raises:
        ValueError: If the model is not a Llama, Qwen2 or Qwen3, or has a feature that TransformerLM
            does not have, such as biases in the feed-forward network, a sliding window, another
            activation function or quantized weights. The message names the field.
    """
    kind = content.get("model_type")
    if kind not in list(FAMILY_NAMES):  # the value may be unhashable
        raise InputError(
            f"must be 'llama', 'qwen2' or 'qwen3', got {short_repr(kind)}", argument="model_type"
        )
    theta, scaling = _rope_from_llama(content)
    _check_features(kind, content)
    tied = content.get("tie_word_embeddings", False)
    if not isinstance(tied, bool):
        raise InputError(
            f"must be true or false, got {short_repr(tied)}", argument="tie_word_embeddings"
        )
    try:
        required = {field: content[name] for field, name in _REQUIRED.items()}
    except KeyError as error:
        raise InputError("is missing", argument=error.args[0]) from None
    values = {
        **required,
        "num_kv_heads": content.get("num_key_value_heads"),
        "head_dim": content.get("head_dim"),
        "rope_theta": theta,
        "rope_scaling": scaling,
        "norm_eps": content.get("rms_norm_eps", 1e-6),
        "qk_norm": kind == "qwen3",
        "qkv_bias": kind == "qwen2",
        "tied_embeddings": tied,
        "embedding_scale": 1.0 if tied else None,
    }
    if values["num_kv_heads"] == values["num_heads"]:
        values["num_kv_heads"] = None  # the default
    try:
        config = build(ModelConfig, values)
    except InputError as error:
        raise error.renamed(lambda name: _FIELDS.get(name, name)) from None
    if config.head_dim == config.d_model / config.num_heads:
        config = dataclasses.replace(config, head_dim=None)
    return config


_REQUIRED = {
    "vocab_size": "vocab_size",
    "context_length": "max_position_embeddings",
    "d_model": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "d_ff": "intermediate_size",
}
_FIELDS = _REQUIRED | {"num_kv_heads": "num_key_value_heads", "norm_eps": "rms_norm_eps"}
"""Llama's names for fields of ModelConfig."""


def _check_features(kind: str, content: Mapping[str, Any]) -> None:
    """Reject a model with a feature that TransformerLM does not have."""
    layer_types = content.get("layer_types") or []
    is_full = isinstance(layer_types, list) and all(t == "full_attention" for t in layer_types)
    for key, value, needed in (
        ("partial_rotary_factor", content.get("partial_rotary_factor", 1.0), 1.0),
        ("hidden_act", content.get("hidden_act", "silu"), "silu"),
        # Qwen2 has no such field: its queries, keys and values have biases, its output has none.
        ("attention_bias", kind != "qwen2" and content.get("attention_bias", False), False),
        ("mlp_bias", content.get("mlp_bias", False), False),
        ("use_sliding_window", content.get("use_sliding_window", False), False),
        ("layer_types", "full_attention" if is_full else layer_types, "full_attention"),
        ("quantization_config", content.get("quantization_config"), None),
    ):
        if value != needed:
            raise InputError(f"must be {needed!r}, got {short_repr(value)}", argument=key)


def _rope_from_llama(content: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the base and the scaling of a configuration's rotary angles, to be checked."""
    parts: dict[str, dict[str, Any]] = {}
    for key in ("rope_parameters", "rope_scaling"):  # transformers 5, transformers 4
        part = content.get(key) or {}
        if not isinstance(part, dict):
            raise InputError(f"must be an object, got {short_repr(part)}", argument=key)
        # An absent key must not differ from a default that is written out.
        parts[key] = {"rope_type": part.get("type", "default"), **part}
        parts[key].pop("type", None)
    rope, older = parts["rope_parameters"], parts["rope_scaling"]
    if not content.get("rope_parameters"):
        rope = older
    thetas = [
        value
        for value in (content.get("rope_theta"), rope.get("rope_theta"), older.get("rope_theta"))
        if value is not None
    ]
    if any(value != thetas[0] for value in thetas):
        raise InputError(
            f"must be the same everywhere, got {short_repr(thetas)}", argument="rope_theta"
        )
    plain, plain_older = (
        {key: value for key, value in part.items() if key != "rope_theta"} for part in (rope, older)
    )
    if content.get("rope_scaling") and plain != plain_older:
        raise InputError(
            f"must equal rope_scaling, got {short_repr(rope)}", argument="rope_parameters"
        )
    kind, partial = rope["rope_type"], rope.get("partial_rotary_factor", 1.0)
    if partial != 1.0:
        raise InputError(
            f"must be 1.0, got {short_repr(partial)}", argument="partial_rotary_factor"
        )
    if kind not in ("default", "llama3"):
        raise InputError(
            f"must be 'default' or 'llama3', got {short_repr(kind)}", argument="rope_type"
        )
    theta = thetas[0] if thetas else 10_000.0
    if kind == "default":
        return theta, None
    for key in _SCALING:
        if key not in rope:
            raise InputError("is missing", argument=key)
    return theta, [rope[key] for key in _SCALING]


def state_from_llama(config: ModelConfig, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert Llama's state dict to our names and layout, in float32; the inverse of `llama_state`.

    Args:
        config: Configuration from `config_from_llama`.
        state: State dict of a Llama. If its embeddings are tied, it may have the table twice.

    Raises:
        ValueError: If a tensor is missing or unknown, or has the wrong shape or dtype, or if tied
            embeddings differ from the head.
    """
    given = dict(state)
    if config.tied_embeddings:
        embeddings, head = given.get("model.embed_tokens.weight"), given.pop("lm_head.weight", None)
        is_twice = embeddings is not None and head is not None
        if is_twice and not torch.equal(embeddings, head):  # type: ignore[arg-type]
            raise InputError(
                "tensor 'lm_head.weight' differs from the embeddings, but tie_word_embeddings is "
                "true",
                remedy="remove the tensor, or set tie_word_embeddings to false",
            )
    found: dict[str, Tensor] = {}
    for name, shape in named_shapes(config):
        theirs = llama_name(name)
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


def llama_name(name: str) -> str:
    """Translate our name for a weight, such as `layers.N.attn.q_proj.weight`, to Llama's."""
    if name in _TOP:
        return _TOP[name]
    _, number, rest = name.split(".", 2)
    layer, _, kind = rest.rpartition(".")  # kind: weight or bias
    return f"model.layers.{number}.{_LAYER[layer]}.{kind}"


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
