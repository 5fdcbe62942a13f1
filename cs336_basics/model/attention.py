"""Attention: softmax, scaled dot-product attention, rotary positions and the multi-head layer.

Shapes: "..." is any number of batch dimensions; heads are a batch dimension as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import Module

from cs336_basics.model.kv_cache import LayerCache
from cs336_basics.model.layers import Linear, RMSNorm, at_least_float32, check_ids


def softmax(x: Tensor, dim: int) -> Tensor:
    """Exponentials of x, scaled to sum to 1 along `dim`; the shape and dtype of x.

    Computed in float32 at least. Where every entry along `dim` is -inf there is no distribution
    to return and the result is NaN, as with `torch.softmax`; the attention below avoids this case.

    Raises TypeError where x is not floating point.
    """
    if not x.is_floating_point():
        raise TypeError(f"softmax needs floating-point values, not {x.dtype}")
    if x.numel() == 0:
        return x.clone()  # of no values there is no maximum
    precise = at_least_float32(x)
    # Softmax does not change when a constant is subtracted; after subtracting the maximum
    # the largest exponential is e^0 = 1, so none overflows. The maximum needs no gradient.
    shifted = precise - precise.amax(dim=dim, keepdim=True).detach()
    exponentials = shifted.exp()
    return (exponentials / exponentials.sum(dim=dim, keepdim=True)).to(x.dtype)


def scaled_dot_product_attention(
    Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None
) -> Tensor:
    """softmax(Q K^T / sqrt(d_k)) V (Vaswani et al. 2017, section 3.2.1), the readable version.

    Q is (..., queries, d_k), K (..., keys, d_k), V (..., keys, d_v), the result
    (..., queries, d_v). `mask` is bool, (queries, keys) or with batch dimensions, and True means:
    this query attends to this key. For a query that may attend to no key the result and the
    gradients are zero, as in `torch.nn.functional.scaled_dot_product_attention`.

    Raises TypeError where the mask is not bool.
    """
    # Q is scaled, not Q K^T: in float16 the products could exceed its range.
    scores = torch.einsum("...qd,...kd->...qk", Q / math.sqrt(Q.shape[-1]), K)
    if mask is None:
        return torch.einsum("...qk,...kv->...qv", softmax(scores, dim=-1), V)

    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be bool (True = attend), not {mask.dtype}")
    has_key = mask.any(dim=-1, keepdim=True)  # (..., queries, 1)
    # A row of -inf only would give NaN, so a query without keys is not masked here ...
    scores = scores.masked_fill(~mask & has_key, -math.inf)  # (..., queries, keys)
    out = torch.einsum("...qk,...kv->...qv", softmax(scores, dim=-1), V)  # (..., queries, d_v)
    # ... but here, where a zero also stops its gradient.
    return out.masked_fill(~has_key, 0.0)


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

    Raises ValueError where num_blocks is below 1.
    """
    if num_blocks < 1:
        raise ValueError(f"num_blocks is {num_blocks}: it must be at least 1")
    sequence = Q.shape[-2]
    size = max(1, -(-sequence // num_blocks))
    Q = Q / math.sqrt(Q.shape[-1])  # not the scores, which are many more
    outputs = []
    for start in range(0, max(sequence, 1), size):
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

        `token_positions` are int32 or int64, (..., sequence); None means 0, 1, 2, ... Their batch
        dimensions are matched with the first ones of x: (batch, sequence) serves an x of
        (batch, heads, sequence, d_k), and so do (1, sequence) and (sequence,).

        Raises ValueError where the shapes do not fit or the sequence is longer than max_seq_len;
        IndexError (on the CPU, not under `torch.compile`) for a position outside the tables.
        """
        sequence, d_k = x.shape[-2:]
        max_seq_len = self.cos.shape[0]
        if d_k != 2 * self.cos.shape[1]:
            raise ValueError(f"x has {d_k} features per head, RoPE has {2 * self.cos.shape[1]}")

        if token_positions is None:
            if sequence > max_seq_len:
                raise ValueError(
                    f"the sequence has {sequence} positions, RoPE has tables for {max_seq_len}: "
                    "shorten the sequence or build it with a larger max_seq_len"
                )
            cos, sin = self.cos[:sequence], self.sin[:sequence]  # (sequence, d_k / 2)
        else:
            missing = x.ndim - 1 - token_positions.ndim  # batch dimensions, such as heads
            fits = token_positions.ndim > 0 and token_positions.shape[-1] == sequence
            if not (fits and missing >= 0 and _is_broadcast(token_positions.shape[:-1], x.shape)):
                raise ValueError(
                    f"token_positions of shape {tuple(token_positions.shape)} do not fit "
                    f"x of shape {tuple(x.shape)}: they must be (..., {sequence}), with the first "
                    "batch dimensions of x, or 1"
                )
            check_ids(token_positions, max_seq_len, "token positions")
            batch_shape = token_positions.shape[:-1] + (1,) * missing
            token_positions = token_positions.reshape(*batch_shape, sequence)
            cos = self.cos[token_positions]  # (..., sequence, d_k / 2)
            sin = self.sin[token_positions]  # (..., sequence, d_k / 2)

        even, odd = x[..., 0::2], x[..., 1::2]  # (..., sequence, d_k / 2) each
        rotated = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
        return rotated.flatten(-2).to(x.dtype)  # (..., sequence, d_k)


def _is_broadcast(shape: torch.Size, first: torch.Size) -> bool:
    """Return whether each dimension is 1 or that of `first`, from the first one on."""
    return all(size in (1, other) for size, other in zip(shape, first, strict=False))


class MultiHeadSelfAttention(Module):
    """Causal multi-head self-attention (Vaswani et al. 2017, section 3.2.2).

    Each head has d_k = d_v = d_model / num_heads features.

    `rope` rotates queries and keys; None omits positions. It is an argument so that all layers of a
    model share one pair of tables. `attention` is a key of CAUSAL_ATTENTION: all of them compute
    the same, up to rounding. With a cache, "blocked" uses PyTorch's kernel. `qk_norm_eps`, if
    given, puts an RMSNorm with this eps over the d_k features of queries and of keys, before RoPE
    (Henry et al. 2020, "Query-Key Normalization", here with the RMSNorm and the gains of later
    models).

    Raises ValueError where num_heads is below 1 or does not divide d_model, and where `attention`
    is unknown.
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
        if num_heads < 1:
            raise ValueError(f"num_heads must be at least 1, not {num_heads}")
        if d_model % num_heads != 0:
            raise ValueError(
                f"num_heads must divide d_model: {num_heads} does not divide {d_model}"
            )
        if attention not in CAUSAL_ATTENTION:
            names = ", ".join(CAUSAL_ATTENTION)
            raise ValueError(f"attention must be one of {names}; not {attention!r}")
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
            d_k = d_model // num_heads
            self.q_norm = RMSNorm(d_k, qk_norm_eps, device=device, dtype=dtype)
            self.k_norm = RMSNorm(d_k, qk_norm_eps, device=device, dtype=dtype)

    def forward(
        self,
        x: Tensor,
        token_positions: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """Let every position of x: (..., sequence, d_model) attend to itself and those before it.

        `token_positions` go to RoPE; which position may see which follows from the order in x.

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
            q = self.rope(q, token_positions)
            k = self.rope(k, token_positions)

        if cache is not None:
            assert token_positions is not None
            heads = self._attend_to_cache(q, k, v, token_positions, cache)
        else:
            heads = self._attend(q, k, v)

        joined = heads.transpose(-3, -2).flatten(-2)  # (..., sequence, d_model)
        out: Tensor = self.output_proj(joined)  # (..., sequence, d_model)
        return out

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
