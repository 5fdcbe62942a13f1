"""A look into a model: whether it can be used with a tokenizer, and its attention weights."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch.nn import Module

from cs336_basics._support.errors import InputError
from cs336_basics.model.attention import causal_attention
from cs336_basics.model.config import ModelConfig
from cs336_basics.model.transformer import TransformerBlock, TransformerLM


class NonFiniteWeightsError(InputError):
    """Weights that are infinite or NaN, so the model computes nothing."""


@torch.no_grad()
def check_is_finite(model: Module, place: str = "") -> None:
    """Check that no weight of a model is infinite or NaN.

    Args:
        model: The model.
        place: Where the weights are from, for the message.

    Raises:
        NonFiniteWeightsError: If a weight is.
    """
    for name, weight in model.named_parameters():
        # The sum is faster. It may overflow although all values are finite.
        if not (weight.sum().isfinite() or weight.isfinite().all()):
            raise NonFiniteWeightsError(
                f"weight {name} must be finite, got inf or NaN",
                remedy="use an earlier checkpoint",
                place=place,
            )


def check_has_ids(config: ModelConfig, num_ids: int, remedy: str, place: str = "") -> None:
    """Check that a model has a row for each id of a tokenizer.

    Args:
        config: Configuration of the model.
        num_ids: The tokenizer's `vocab_size`.
        remedy, place: What to do, and where the tokenizer is, for the message.

    Raises:
        ValueError: If the tokenizer has more ids.
    """
    if num_ids > config.vocab_size:
        raise InputError(
            f"the tokenizer has {num_ids:,} ids, but the model's vocab_size is "
            f"{config.vocab_size:,}",
            remedy=remedy,
            place=place,
        )


@torch.no_grad()
def attention_weights(model: TransformerLM, token_ids: Tensor, layer: int) -> Tensor:
    """Return how much each position attends to itself and to each earlier position in one layer.

    Args:
        model: The model.
        token_ids: Shape (sequence,), at most `context_length` long.
        layer: Index of the layer.

    Returns:
        Weights of shape (heads, sequence, sequence), indexed by head, query and key. Each row sums
        to 1.

    Raises:
        ValueError: If the model does not have this layer.
    """
    if not 0 <= layer < len(model.layers):
        raise InputError(
            f"must be at least 0 and below {len(model.layers)}, got {layer}", argument="layer"
        )
    x = model.embed(token_ids)  # (sequence, d_model)
    for earlier in model.layers[:layer]:
        x = earlier(x)
    block = cast(TransformerBlock, model.layers[layer])
    q, k, _ = block.attn.project(block.ln1(x) if block.norm == "pre" else x)  # (heads, ..., d_k)
    # With the identity as values, the weighted sums of the values are the weights.
    identity = torch.eye(len(token_ids), dtype=q.dtype, device=q.device)
    k = block.attn.for_queries(k)
    return causal_attention(q, k, identity.expand(block.attn.num_heads, -1, -1))
