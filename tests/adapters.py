"""Adapters that provide this library under the names used in the CS336 course's tests."""

# Calling a torch Module returns Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import IO, Any, BinaryIO

import numpy.typing as npt
import torch
from torch import Tensor

from cs336_basics.model import (
    Embedding,
    Linear,
    ModelConfig,
    MultiHeadSelfAttention,
    RMSNorm,
    RotaryPositionalEmbedding,
    SwiGLU,
    TransformerBlock,
    TransformerLM,
    scaled_dot_product_attention,
    silu,
    softmax,
)
from cs336_basics.training import (
    AdamW,
    clip_gradients,
    cosine_schedule,
    cross_entropy,
    get_batch,
    load_checkpoint,
    save_checkpoint,
)

PROJECTIONS = [f"{name}_proj.weight" for name in ("q", "k", "v", "output")]


def run_linear(d_in: int, d_out: int, weights: Tensor, in_features: Tensor) -> Tensor:
    """Apply a linear layer with the given weights."""
    linear = Linear(d_in, d_out, dtype=weights.dtype)
    linear.load_state_dict({"weight": weights})
    return linear(in_features)


def run_embedding(vocab_size: int, d_model: int, weights: Tensor, token_ids: Tensor) -> Tensor:
    """Return the rows of the given embedding matrix for token ids."""
    embedding = Embedding(vocab_size, d_model, dtype=weights.dtype)
    embedding.load_state_dict({"weight": weights})
    return embedding(token_ids)


def run_swiglu(
    d_model: int,
    d_ff: int,
    w1_weight: Tensor,
    w2_weight: Tensor,
    w3_weight: Tensor,
    in_features: Tensor,
) -> Tensor:
    """Apply a SwiGLU network with the given weights."""
    swiglu = SwiGLU(d_model, d_ff, dtype=w1_weight.dtype)
    swiglu.load_state_dict({"w1.weight": w1_weight, "w2.weight": w2_weight, "w3.weight": w3_weight})
    return swiglu(in_features)


def run_scaled_dot_product_attention(
    Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Compute scaled dot-product attention."""
    return scaled_dot_product_attention(Q, K, V, mask)


def run_multihead_self_attention(
    d_model: int,
    num_heads: int,
    q_proj_weight: Tensor,
    k_proj_weight: Tensor,
    v_proj_weight: Tensor,
    o_proj_weight: Tensor,
    in_features: Tensor,
) -> Tensor:
    """Compute causal multi-head self-attention without position embeddings."""
    attention = MultiHeadSelfAttention(d_model, num_heads, dtype=q_proj_weight.dtype)
    projections = (q_proj_weight, k_proj_weight, v_proj_weight, o_proj_weight)
    attention.load_state_dict(dict(zip(PROJECTIONS, projections, strict=True)))
    return attention(in_features)


def run_multihead_self_attention_with_rope(
    d_model: int,
    num_heads: int,
    max_seq_len: int,
    theta: float,
    q_proj_weight: Tensor,
    k_proj_weight: Tensor,
    v_proj_weight: Tensor,
    o_proj_weight: Tensor,
    in_features: Tensor,
    token_positions: Tensor | None = None,
) -> Tensor:
    """Compute causal multi-head self-attention with rotary position embeddings."""
    rope = RotaryPositionalEmbedding(theta, d_model // num_heads, max_seq_len)
    attention = MultiHeadSelfAttention(d_model, num_heads, rope, dtype=q_proj_weight.dtype)
    projections = (q_proj_weight, k_proj_weight, v_proj_weight, o_proj_weight)
    attention.load_state_dict(dict(zip(PROJECTIONS, projections, strict=True)))
    return attention(in_features, token_positions)


def run_rope(
    d_k: int,
    theta: float,
    max_seq_len: int,
    in_query_or_key: Tensor,
    token_positions: Tensor,
) -> Tensor:
    """Apply a rotary position embedding to queries or keys."""
    return RotaryPositionalEmbedding(theta, d_k, max_seq_len)(in_query_or_key, token_positions)


def run_transformer_block(
    d_model: int,
    num_heads: int,
    d_ff: int,
    max_seq_len: int,
    theta: float,
    weights: dict[str, Tensor],
    in_features: Tensor,
) -> Tensor:
    """Apply one pre-norm Transformer block with rotary position embeddings."""
    config = ModelConfig(d_model=d_model, num_heads=num_heads, d_ff=d_ff)
    rope = RotaryPositionalEmbedding(theta, d_model // num_heads, max_seq_len)
    block = TransformerBlock(config, rope, dtype=weights["ln1.weight"].dtype)
    block.load_state_dict(weights)
    return block(in_features)


def run_transformer_lm(
    vocab_size: int,
    context_length: int,
    d_model: int,
    num_layers: int,
    num_heads: int,
    d_ff: int,
    rope_theta: float,
    weights: dict[str, Tensor],
    in_indices: Tensor,
) -> Tensor:
    """Return the language model's logits for the next token at every position."""
    config = ModelConfig(
        vocab_size=vocab_size,
        context_length=context_length,
        d_model=d_model,
        num_layers=num_layers,
        num_heads=num_heads,
        d_ff=d_ff,
        rope_theta=rope_theta,
    )
    model = TransformerLM(config, dtype=weights["ln_final.weight"].dtype)
    model.load_state_dict(weights)
    return model(in_indices)


def run_rmsnorm(d_model: int, eps: float, weights: Tensor, in_features: Tensor) -> Tensor:
    """Apply RMSNorm with the given gains."""
    rmsnorm = RMSNorm(d_model, eps, dtype=weights.dtype)
    rmsnorm.load_state_dict({"weight": weights})
    return rmsnorm(in_features)


def run_silu(in_features: Tensor) -> Tensor:
    """Apply SiLU to every element."""
    return silu(in_features)


def run_get_batch(
    dataset: npt.NDArray[Any], batch_size: int, context_length: int, device: str
) -> tuple[Tensor, Tensor]:
    """Return random windows of a dataset, and their next tokens as targets."""
    return get_batch(dataset, batch_size, context_length, device)


def run_softmax(in_features: Tensor, dim: int) -> Tensor:
    """Return the softmax over a dimension."""
    return softmax(in_features, dim)


def run_cross_entropy(inputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy between logits and target classes."""
    return cross_entropy(inputs, targets)


def run_gradient_clipping(parameters: Iterable[torch.nn.Parameter], max_l2_norm: float) -> None:
    """Clip the global L2 norm of all gradients in place."""
    clip_gradients(parameters, max_l2_norm)


def get_adamw_cls() -> type[torch.optim.Optimizer]:
    """Return the AdamW class."""
    return AdamW


def run_get_lr_cosine_schedule(
    it: int,
    max_learning_rate: float,
    min_learning_rate: float,
    warmup_iters: int,
    cosine_cycle_iters: int,
) -> float:
    """Return the learning rate of a cosine schedule at an iteration."""
    return cosine_schedule(
        it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters
    )


def run_save_checkpoint(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    iteration: int,
    out: str | os.PathLike[str] | BinaryIO | IO[bytes],
) -> None:
    """Save the model, the optimizer and the iteration."""
    save_checkpoint(model, optimizer, iteration, out)


def run_load_checkpoint(
    src: str | os.PathLike[str] | BinaryIO | IO[bytes],
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
) -> int:
    """Restore the model and the optimizer, and return the iteration."""
    return load_checkpoint(src, model, optimizer)


def get_tokenizer(
    vocab: dict[int, bytes],
    merges: list[tuple[bytes, bytes]],
    special_tokens: list[str] | None = None,
) -> Any:
    """Return a tokenizer with the given vocabulary, merges and special tokens."""
    from cs336_basics import Tokenizer

    return Tokenizer(vocab, merges, special_tokens)


def run_train_bpe(
    input_path: str | os.PathLike[str],
    vocab_size: int,
    special_tokens: list[str],
    **kwargs: Any,
) -> tuple[dict[int, bytes], list[tuple[bytes, bytes]]]:
    """Train a BPE tokenizer and return its vocabulary and merges."""
    from cs336_basics import train_bpe

    return train_bpe(input_path, vocab_size, special_tokens, **kwargs)
