"""Twenty model configurations that Llama, Qwen2 or Qwen3 can represent, and random models."""

from __future__ import annotations

import itertools

import torch

from cs336_basics.model import ModelConfig, TransformerLM
from tests.formats.exported import PATTERNS

SHAPES = [
    {"num_heads": 4, "d_model": 48, "d_ff": 100, "num_layers": 3},
    {"num_heads": 1, "d_model": 18, "d_ff": 31, "num_layers": 1},  # one head, odd sizes
    {"num_heads": 7, "d_model": 42, "d_ff": 57, "num_layers": 2, "context_length": 77},
    {"num_heads": 8, "d_model": 16, "d_ff": 16, "num_layers": 4, "rope_theta": 500.0,
     "num_kv_heads": 2},
    {"num_heads": 3, "d_model": 96, "d_ff": 1, "num_layers": 2, "norm_eps": 1e-3,
     "num_kv_heads": 1, "head_dim": 10, "qkv_bias": True},
]  # fmt: skip
SWITCHES = [
    {"tied_embeddings": tied, "qk_norm": qk_norm}
    for tied, qk_norm in itertools.product((False, True), repeat=2)
]


def _family(values):
    """Return the values, without biases if there is QK-norm, since no family has both."""
    return {**values, "qkv_bias": values.get("qkv_bias", False) and not values["qk_norm"]}


# (configuration without vocab_size, name of the pattern)
CONFIGURATIONS = [
    (_family({"context_length": 96, **shape, **switches}), list(PATTERNS)[(i + j) % len(PATTERNS)])
    for i, shape in enumerate(SHAPES)
    for j, switches in enumerate(SWITCHES)
]
assert len(CONFIGURATIONS) == 20


def for_gguf(values):
    """Return the values without a `head_dim` that llama.cpp does not read."""
    return {**values, "head_dim": None} if values["qkv_bias"] else values


def random_model(seed=0, *, config=None, **values):
    """Return a random model. No weight is 1 or 0 at first, so that each matters."""
    torch.manual_seed(seed)
    model = TransformerLM(config or ModelConfig(**values))
    for name, parameter in model.named_parameters():
        if "norm" in name or "ln" in name or name.endswith(".bias"):
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
        if name.startswith("bigram"):
            torch.nn.init.normal_(parameter)
    return model
