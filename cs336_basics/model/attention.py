"""Attention: softmax, scaled dot-product attention, rotary positions and the multi-head layer.

Shapes: "..." is any number of batch dimensions; heads are a batch dimension as well.
"""

# Calling a torch Module returns Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import Module

from cs336_basics.model.kv_cache import LayerCache
from cs336_basics.model.layers import Linear, RMSNorm, at_least_float32


def softmax(x: Tensor, dim: int) -> Tensor:
    """Exponentials of x, scaled to sum to 1 along `dim`: the shape of x, in float32 or float64."""
    x = at_least_float32(x)
    # Softmax does not change when a constant is subtracted; after subtracting the maximum
    # the largest exponential is e^0 = 1, so none overflows. The maximum needs no gradient.
    exponentials = (x - x.amax(dim=dim, keepdim=True).detach()).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def scaled_dot_product_attention(
    Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None
) -> Tensor:
    """softmax(Q K^T / sqrt(d_k)) V (Vaswani et al. 2017, section 3.2.1), the readable version.

    Q is (..., queries, d_k), K (..., keys, d_k), V (..., keys, d_v), the result
    (..., queries, d_v). `mask` is bool, (queries, keys) or with batch dimensions, and True means:
    this query attends to this key. Each query needs at least one key; without, it gets NaN.
    """
    # Q is scaled, not Q K^T: in float16 the products could exceed its range.
    scores = torch.einsum("...qd,...kd->...qk", Q / math.sqrt(Q.shape[-1]), K)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = softmax(scores, dim=-1).to(V.dtype)  # (..., queries, keys)
    return torch.einsum("...qk,...kv->...qv", weights, V)


def causal_attention(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """`scaled_dot_product_attention` in which position i attends to positions 0 .. i.

    Q, K and V are (..., sequence, d_k), and so is the result.
    """
    sequence = Q.shape[-2]
    causal = torch.ones(sequence, sequence, dtype=torch.bool, device=Q.device).tril()
    return scaled_dot_product_attention(Q, K, V, mask=causal)


def blocked_causal_attention(Q: Tensor, K: Tensor, V: Tensor, num_blocks: int = 2) -> Tensor:
    """`causal_attention` over blocks of queries, which skips part of the masked scores.

    Q, K and V are (..., sequence, d_k), and so is the result, in the dtype of V. The queries are
    cut into `num_blocks` blocks of equal length (the last one may be shorter). Each block attends
    to the keys up to its own end, so with n blocks (n - 1) / 2n of the scores are never computed:
    a quarter for two. More blocks save more and make smaller products.

    Softmax is computed in float32 at least. Memory is quadratic in the sequence.
    """
    sequence = Q.shape[-2]
    size = -(-sequence // num_blocks)
    Q = Q / math.sqrt(Q.shape[-1])  # not the scores, which are many more
    outputs = []
    for start in range(0, sequence, size):
        end = min(start + size, sequence)
        # A position in this block attends to all earlier blocks and, in its own, up to itself.
        hidden = torch.ones(end - start, end, dtype=torch.bool, device=Q.device).triu(start + 1)
        scores = Q[..., start:end, :] @ K[..., :end, :].transpose(-2, -1)  # (..., block, end)
        scores = at_least_float32(scores).masked_fill_(hidden, -math.inf)
        outputs.append(torch.softmax(scores, dim=-1).to(V.dtype) @ V[..., :end, :])
    return torch.cat(outputs, dim=-2)


def fused_causal_attention(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """`causal_attention` by PyTorch's fused kernel, with memory linear in the sequence."""
    return torch.nn.functional.scaled_dot_product_attention(Q, K, V, is_causal=True)


CAUSAL_ATTENTION: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "sdpa": fused_causal_attention,
    "blocked": blocked_causal_attention,
    "reference": causal_attention,
}
"""Implementations of causal attention by the names that `ModelConfig.attention` takes."""


class RotaryPositionalEmbedding(Module):
    """Rotary position embedding, RoPE: rotates pairs of features by position-dependent angles.

    At position i the features (2k, 2k + 1) are rotated by i * theta^(-2k / d_k), so that the dot
    product of a query and a key depends only on their distance (Su et al. 2021, section 3.2).

    The tables `cos` and `sin`, (max_seq_len, d_k / 2) in float32, are buffers: they move with the
    module but are not saved, since the arguments determine them. The rotation is computed in
    float32 too, under autocast as well. (`.to(torch.bfloat16)` casts buffers, these among them;
    TransformerLM's `dtype` leaves them alone.)

    Raises ValueError where d_k is odd, or theta not positive and finite.
    """

    cos: Tensor
    sin: Tensor

    def __init__(
        self,
        theta: float,
        d_k: int,
        max_seq_len: int,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        if d_k % 2 != 0:
            raise ValueError(f"RoPE rotates pairs of features: d_k must be even, not {d_k}")
        if not 0 < theta < math.inf:
            raise ValueError(f"theta is {theta}: it must be positive and finite")
        position = torch.arange(max_seq_len, device=device, dtype=torch.float32)  # (max_seq_len,)
        feature = torch.arange(0, d_k, 2, device=device, dtype=torch.float32)  # (d_k / 2,)
        angle = torch.outer(position, theta ** (-feature / d_k))  # (max_seq_len, d_k / 2)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, x: Tensor, token_positions: Tensor | None = None) -> Tensor:
        """Rotate x: (..., sequence, d_k), queries or keys; the result has its shape and dtype.

        `token_positions` are integers in 0 .. max_seq_len - 1, (..., sequence), whose batch
        dimensions are broadcast with those of x; None means 0, 1, 2, ...
        """
        positions = slice(x.shape[-2]) if token_positions is None else token_positions
        cos, sin = self.cos[positions], self.sin[positions]  # (..., sequence, d_k / 2) each
        even, odd = x[..., 0::2], x[..., 1::2]  # (..., sequence, d_k / 2) each
        rotated = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
        return rotated.flatten(-2).to(x.dtype)  # (..., sequence, d_k)


class MultiHeadSelfAttention(Module):
    """Causal multi-head self-attention (Vaswani et al. 2017, section 3.2.2).

    Each head has d_k = d_v = d_model / num_heads features.

    `rope` rotates queries and keys; None omits positions. It is an argument so that all layers of a
    model share one pair of tables. `attention` is a key of CAUSAL_ATTENTION: all of them compute
    the same, up to rounding. With a cache, "blocked" uses PyTorch's kernel. `qk_norm_eps`, if
    given, puts an RMSNorm with this eps over the d_k features of queries and of keys, before RoPE
    (Henry et al. 2020, "Query-Key Normalization", here with the RMSNorm and the gains of later
    models).

    Raises ValueError where num_heads does not divide d_model, or `rope` is for another d_k.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        rope: RotaryPositionalEmbedding | None = None,
        attention: str = "sdpa",
        qk_norm_eps: float | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if num_heads < 1 or d_model % num_heads != 0:
            raise ValueError(f"num_heads is {num_heads}: it must divide d_model, {d_model}")
        d_k = d_model // num_heads
        if rope is not None and d_k != 2 * rope.cos.shape[1]:
            raise ValueError(f"rope is for d_k {2 * rope.cos.shape[1]}: the heads have {d_k}")
        self.num_heads = num_heads
        self._attend = CAUSAL_ATTENTION[attention]
        self._attend_masked: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor] = (
            scaled_dot_product_attention
            if attention == "reference"
            else torch.nn.functional.scaled_dot_product_attention
        )
        self.rope = rope
        self.q_proj = Linear(d_model, d_model, device=device, dtype=dtype)
        self.k_proj = Linear(d_model, d_model, device=device, dtype=dtype)
        self.v_proj = Linear(d_model, d_model, device=device, dtype=dtype)
        self.output_proj = Linear(d_model, d_model, device=device, dtype=dtype)
        self.q_norm: RMSNorm | None = None
        self.k_norm: RMSNorm | None = None
        if qk_norm_eps is not None:
            self.q_norm = RMSNorm(d_k, qk_norm_eps, device=device, dtype=dtype)
            self.k_norm = RMSNorm(d_k, qk_norm_eps, device=device, dtype=dtype)

    def forward(
        self,
        x: Tensor,
        token_positions: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """Let every position of x: (..., sequence, d_model) attend to itself and those before it.

        `token_positions`, (..., sequence), go to RoPE; their batch dimensions are broadcast with
        those of x. Which position may see which follows from the order in x.

        With a `cache`, x is (batch, sequence, d_model) and continues the texts in it at
        `token_positions` (batch, sequence); its keys and values are stored there, and its
        positions attend to what was stored before as well.
        """
        q = self._split_heads(self.q_proj(x))  # (..., heads, sequence, d_k)
        k = self._split_heads(self.k_proj(x))  # (..., heads, sequence, d_k)
        v = self._split_heads(self.v_proj(x))  # (..., heads, sequence, d_k)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        if self.rope is not None:
            # All heads have the positions of their text: (..., 1, sequence).
            positions = None if token_positions is None else token_positions.unsqueeze(-2)
            q, k = self.rope(q, positions), self.rope(k, positions)

        if cache is not None:
            assert token_positions is not None
            heads = self._attend_to_cache(q, k, v, token_positions, cache)
        else:
            heads = self._attend(q, k, v)

        joined = heads.transpose(-3, -2).flatten(-2)  # (..., sequence, d_model)
        return self.output_proj(joined)  # (..., sequence, d_model)

    def _attend_to_cache(
        self, q: Tensor, k: Tensor, v: Tensor, token_positions: Tensor, cache: LayerCache
    ) -> Tensor:
        """Store k and v; let each q, (batch, heads, sequence, d_k), attend up to its own slot."""
        cache.store(k, v, token_positions)
        keys, values = cache.keys.to(q.dtype), cache.values.to(q.dtype)
        slots = torch.arange(keys.shape[-2], device=q.device)
        mask = slots <= token_positions[:, None, :, None]  # (batch, 1, sequence, slots)
        return self._attend_masked(q, keys, values, mask)

    def _split_heads(self, x: Tensor) -> Tensor:
        """(..., sequence, d_model) -> (..., heads, sequence, d_k)."""
        d_k = x.shape[-1] // self.num_heads
        return x.reshape(*x.shape[:-1], self.num_heads, d_k).transpose(-3, -2)
