"""The names and layout of Hugging Face's Llama and Qwen3, in and out.

The default model of this library is a Llama (Touvron et al. 2023); with `qk_norm` it is a Qwen3,
whose attention normalizes queries and keys as ours does. This file translates configurations and
state dicts; it does not import transformers. Layout checked against transformers 5.23.0.

The one difference in arithmetic is the order of features within a head. Our RoPE rotates the pairs
(2k, 2k + 1), theirs (k, k + d_head / 2), so the rows of the query and key matrices, and the gains
of QK-norm, are permuted. Tied embeddings are scaled by sqrt(d_model) here and not there: they are
exported as two matrices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from cs336_basics._support.messages import short_repr
from cs336_basics._support.validation import build
from cs336_basics.model.config import ModelConfig
from cs336_basics.model.transformer import TransformerLM

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
    """Refuse a model that neither Llama nor Qwen3 can represent.

    Raises:
        ValueError: names the switch of the configuration.
    """
    for switch, value, needed in (
        ("norm", config.norm, "pre"),
        ("position", config.position, "rope"),
        ("ffn", config.ffn, "swiglu"),
        ("logit_soft_cap", config.logit_soft_cap, None),
    ):
        if value != needed:
            raise ValueError(
                f"the model has {switch} {value!r}, which neither Llama nor Qwen3 has: only models "
                f"with {switch} {needed!r} can be exported"
            )


def llama_config(config: ModelConfig) -> dict[str, Any]:
    """Return the content of `config.json` for a model, without the ids of special tokens.

    Raises:
        ValueError: see `check_is_llama`.
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
    """Return our state dict under Llama's names and in its layout.

    Args:
        config: the model's configuration.
        state: the state dict of a TransformerLM; it is not changed.
        halves: permute queries and keys, as Hugging Face needs it; if false, they keep our pairs,
            which are also the original Llama's.

    Raises:
        ValueError: see `check_is_llama`.
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
    """Return the configuration of a `config.json`.

    Raises:
        ValueError: it is not a Llama or Qwen3 that TransformerLM can represent (biases, scaled
            RoPE, another activation, quantized weights); names what differs.
    """
    kind = content.get("model_type")
    if kind not in ("llama", "qwen3"):
        raise ValueError(
            f"its model_type is {short_repr(kind)}: only llama and qwen3 can be loaded"
        )
    rope = content.get("rope_parameters") or content.get("rope_scaling") or {}
    if not isinstance(rope, dict) or (content.get("rope_scaling") or rope) != rope:
        raise ValueError(f"its rope_parameters are {short_repr(rope)}, no object or two of them")
    theta = content.get("rope_theta")
    theta = rope.get("rope_theta", 10_000.0) if theta is None else theta
    layer_types = content.get("layer_types") or []
    is_full = isinstance(layer_types, list) and all(t == "full_attention" for t in layer_types)
    tied = content.get("tie_word_embeddings", False)
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
        ("tie_word_embeddings", tied, bool(tied) if type(tied) is bool else "true or false"),
    ):
        if value != needed:
            raise ValueError(f"its {key} is {short_repr(value)}: only {needed!r} can be loaded")
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
        raise ValueError(f"it lacks {error.args[0]!r}") from None
    config = build(ModelConfig, values)
    for key, only in (("head_dim", config.d_head), ("num_key_value_heads", config.num_heads)):
        if content.get(key) not in (None, only):
            raise ValueError(f"its {key} is {short_repr(content[key])}: only {only} can be loaded")
    return config


def state_from_llama(
    config: ModelConfig, state: Mapping[str, Tensor], *, tied: bool = False
) -> dict[str, Tensor]:
    """Return a state dict with our names and layout, in float32; the inverse of `llama_state`.

    Args:
        config: what `config_from_llama` returned.
        state: name -> tensor, as Llama has them.
        tied: the embeddings are tied there; here they become two matrices.

    Raises:
        ValueError: a tensor is missing, has another shape or type, or is unknown; or there is a
            head that differs from the embeddings, although they are tied; names it.
    """
    given = dict(state)
    if tied and (embeddings := given.get("model.embed_tokens.weight")) is not None:
        head = given.setdefault("lm_head.weight", embeddings)
        if not torch.equal(head, embeddings):
            raise ValueError(
                "tensor 'lm_head.weight' differs from the embeddings, to which "
                "tie_word_embeddings ties it: remove the tensor, or set that to false"
            )
    if config.num_layers > len(given):  # before a table of a billion layers is made
        raise ValueError(f"it has {config.num_layers:,} layers, but only {len(given)} tensors")
    found: dict[str, Tensor] = {}
    for name, needed in TransformerLM(config, device="meta").state_dict().items():
        theirs, shape = _theirs(name), tuple(needed.shape)
        value = given.pop(theirs, None)
        if value is None:
            raise ValueError(f"there is no tensor {theirs!r}")
        if tuple(value.shape) != shape or value.dtype not in _FLOATS:
            raise ValueError(
                f"tensor {theirs!r} has the shape {tuple(value.shape)} and type {value.dtype}: it "
                f"must be floating point of shape {shape}"
            )
        value = value.to(torch.float32)
        found[name] = (_pairs(value, config) if _is_rotated(name) else value).contiguous()
    unknown = [name for name in given if not name.endswith("rotary_emb.inv_freq")]
    if unknown:
        raise ValueError(f"tensor {short_repr(unknown[0])} has no counterpart in TransformerLM")
    return found


_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _theirs(name: str) -> str:
    """Return Llama's name of a weight: `layers.N.attn.q_proj.weight` and so on."""
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
    """The inverse of `_halves`."""
    rows = weight.view(-1, 2, config.d_head // 2, *weight.shape[1:])
    return rows.transpose(1, 2).reshape(weight.shape)
