"""The initial weights of a model.

A layer draws its own weights when it is created. `start_model` then makes the changes that the
configuration of a whole model asks for.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import init

if TYPE_CHECKING:
    from cs336_basics.model.attention import MultiHeadSelfAttention
    from cs336_basics.model.transformer import TransformerBlock, TransformerLM

_CONSTANT = 4.0
"""Value of feature 0 of the embeddings of a model with previous-token heads. Four standard
deviations remain large after the normalization of the other features."""

_STRENGTH = 2.0
"""Size of the features that induction writes into the residual stream, relative to embeddings."""
_SCORE = 16.0
"""Score of an induction head at a match, before the normalization of its input."""


def has_values(tensor: Tensor) -> bool:
    """Return whether a tensor has values. Those that `training/memory.py` counts have none."""
    return not hasattr(tensor, "fake_mode")


def draw_matrix(weight: Tensor) -> None:
    """Draw a matrix (out, in) from N(0, 2 / (in + out)) truncated at three standard deviations.

    This preserves the variance of activations and gradients (Glorot & Bengio 2010).
    """
    std = math.sqrt(2 / sum(weight.shape))
    if has_values(weight):
        init.trunc_normal_(weight, mean=0.0, std=std, a=-3 * std, b=3 * std)


def draw_table(weight: Tensor) -> None:
    """Draw a table of vectors from N(0, 1) truncated at -3 and 3."""
    if has_values(weight):
        init.trunc_normal_(weight, mean=0.0, std=1.0, a=-3.0, b=3.0)


@torch.no_grad()
def start_model(model: TransformerLM) -> None:
    """Change the weights that the layers of a model have drawn as its configuration says."""
    config = model.config
    blocks: list[TransformerBlock] = list(model.layers)  # type: ignore[arg-type]
    if config.zero_init:
        for block in blocks:
            block.attn.output_proj.weight.zero_()
            block.ffn.w2.weight.zero_()
    divisor = 1.0
    if config.tied_embeddings:
        # The head needs small weights. The embeddings need values of about 1 unless they are
        # normalized first, and their scale therefore makes up for the division by default.
        divisor = math.sqrt(config.d_model)
        model.token_embeddings.weight.div_(divisor)
    if config.previous_token_heads > 0:
        # A linear map without bias can return a constant only if its input contains one.
        model.token_embeddings.weight[:, 0] = _CONSTANT / divisor
        if config.norm == "pre":
            feature = _CONSTANT / math.sqrt(1 + (_CONSTANT**2 - 1) / config.d_model)
        else:
            feature = _CONSTANT * (model.embedding_scale / divisor)
        start_at_previous_tokens(blocks[0].attn, config.previous_token_heads, feature)
    if config.induction_heads and len(blocks) > 1:
        # A norm before the first block hides the size of the embeddings from it.
        size = model.embedding_scale / divisor if config.norm == "pre" else 1.0
        start_at_induction(blocks[0].attn, blocks[1].attn, size)
        if model.lm_head is not None:  # so that a copied embedding means its own token
            scale = model.lm_head.weight.std()
            model.lm_head.weight.copy_(scale * model.token_embeddings.weight)
            model.lm_head.weight[:, 0] = 0


@torch.no_grad()
def start_at_previous_tokens(
    attention: MultiHeadSelfAttention, num_heads: int, feature: float
) -> None:
    """Make head h, for each h < num_heads, attend to the token h + 1 positions before.

    The queries and keys of these heads then depend only on feature 0 of the layer's input, which
    must have the value `feature` at every position. Before RoPE, each query is the key turned back
    by h + 1 positions, so the score at a distance is 4 sum_i cos(theta_i (distance - h - 1)), or
    with QK-norm, a sum of the same shape whose maximum is sqrt(d_k). Only the faster half of the
    pairs i is used, because the others hardly distinguish neighbors. Query heads that share a head
    of keys share these keys.
    """
    rope = attention.rope
    assert rope is not None
    d_k = 2 * rope.cos.shape[1]
    pairs = (d_k + 3) // 4
    size = math.sqrt(4 * math.sqrt(d_k)) / feature
    for head in range(num_heads):
        shared = head // attention.queries_per_key
        query = attention.q_proj.weight[head * d_k : (head + 1) * d_k]  # (d_k, d_model)
        key = attention.k_proj.weight[shared * d_k : (shared + 1) * d_k]  # (d_k, d_model)
        query.zero_()
        key.zero_()
        key[0 : 2 * pairs : 2, 0] = size
        query[0 : 2 * pairs : 2, 0] = size * rope.cos[head + 1, :pairs]
        query[1 : 2 * pairs : 2, 0] = -size * rope.sin[head + 1, :pairs]


@torch.no_grad()
def start_at_induction(
    first: MultiHeadSelfAttention, second: MultiHeadSelfAttention, size: float
) -> None:
    """Make the second block copy the tokens that followed the current one before.

    Head 0 of the first block must start at the previous token. It then writes features of the
    previous token into the residual stream. Each head of the second block but the last (or the only
    head) attends to the tokens that have there what its queries read from the current token, and
    copies some of their features. Query heads that share a head of keys and values copy the same.

    What is read and where it is written are orthonormal directions close to the weights that the
    blocks have drawn. They leave out feature 0, which is equal at all positions. The scores use the
    slower half of the pairs, which RoPE turns little.

    Args:
        first, second: Attention of the first two blocks.
        size: Size of the features of an embedding in the residual stream.
    """
    rope = second.rope
    assert rope is not None
    d_k = 2 * rope.cos.shape[1]
    fast = 2 * ((d_k + 3) // 4)
    num_heads = max(1, second.num_heads - 1)
    shared = [head // second.queries_per_key for head in range(num_heads)]
    previous = first.v_proj.weight[:d_k]  # (d_k, d_model)
    both = _orthonormal(torch.cat((previous, second.k_proj.weight[:d_k])))
    previous[:], written = both[:d_k], both[d_k:]
    first.output_proj.weight[:, :d_k] = _STRENGTH * size * written.T
    values = second.v_proj.weight[: (shared[-1] + 1) * d_k]
    values[:] = _orthonormal(values)
    scale = math.sqrt(_SCORE * math.sqrt(d_k) / (_STRENGTH * (d_k - fast)))
    for head in range(num_heads):
        own = slice(head * d_k, (head + 1) * d_k)
        others = slice(shared[head] * d_k, (shared[head] + 1) * d_k)
        for projection, rows, read in (
            (second.q_proj, own, previous),
            (second.k_proj, others, written),
        ):
            projection.weight[rows] = scale * read
            projection.weight[rows][:fast] = 0
        second.output_proj.weight[:, own] = _STRENGTH * size * second.v_proj.weight[others].T


def _orthonormal(rows: Tensor) -> Tensor:
    """Return orthonormal rows without feature 0, as nearly as there are enough features."""
    rows = rows.clone()
    rows[:, 0] = 0
    left, _, right = torch.linalg.svd(rows, full_matrices=False)
    nearest: Tensor = left @ right  # orthonormal if there are at most as many rows as features
    return nearest.div_(nearest.norm(dim=-1, keepdim=True))
