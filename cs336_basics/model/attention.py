"""Attention: softmax, scaled dot-product attention, rotary embeddings and the multi-head layer.

In shapes, "..." stands for any number of batch dimensions, including heads.
"""

# Calling a torch Module returns Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import Module

from cs336_basics._support.arguments import check_choice, check_is_number, checked_integer
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics.model.kv_cache import LayerCache
from cs336_basics.model.layers import Linear, RMSNorm, at_least_float32, check_ids


def softmax(x: Tensor, dim: int) -> Tensor:
    """Return the softmax of x along `dim`, in float64 if x is float64 and in float32 otherwise.

    Example:
        >>> import torch
        >>> from cs336_basics.model import softmax
        >>> softmax(torch.zeros(1, 4), dim=-1).tolist()
        [[0.25, 0.25, 0.25, 0.25]]
    """
    x = at_least_float32(x)
    # Subtracting a constant does not change a softmax. Subtracting the maximum makes the largest
    # exponential e^0 = 1, which prevents overflow. No gradient flows through the maximum.
    exponentials = (x - x.amax(dim=dim, keepdim=True).detach()).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def scaled_dot_product_attention(
    Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Return softmax(Q K^T / sqrt(d_k)) V (Vaswani et al. 2017, section 3.2.1).

    This is the readable implementation.

    Args:
        Q: Queries, shape (..., queries, d_k).
        K: Keys, shape (..., keys, d_k).
        V: Values, shape (..., keys, d_v).
        mask: Boolean, shape (..., queries, keys), True where a query attends to a key. The result
            is NaN for a query that attends to no key. By default, every query attends to every key.

    Returns:
        Weighted sums of the values, shape (..., queries, d_v).

    Raises:
        TypeError: If the mask is not Boolean.

    Example:
        >>> import torch
        >>> from cs336_basics.model import scaled_dot_product_attention
        >>> q, k, v = torch.zeros(1, 4), torch.zeros(2, 4), torch.tensor([[1.0], [3.0]])
        >>> scaled_dot_product_attention(q, k, v).tolist()
        [[2.0]]
    """
    # Scaling Q instead of the scores keeps float16 products in range.
    scores = torch.einsum("...qd,...kd->...qk", Q / math.sqrt(Q.shape[-1]), K)
    if mask is not None:
        if mask.dtype != torch.bool:  # numbers could also mean values to add
            raise InputTypeError(
                f"must be Boolean, True where a query attends to a key, got {mask.dtype}",
                argument="mask",
                remedy="convert with .bool()",
            )
        scores = scores.masked_fill(~mask, -math.inf)
    weights = softmax(scores, dim=-1).to(V.dtype)  # (..., queries, keys)
    return torch.einsum("...qk,...kv->...qv", weights, V)


def document_mask(documents: Tensor) -> Tensor:
    """Return the mask of causal attention within documents, for `causal_attention`.

    Position i attends to the positions 0 .. i that are in the same document.

    Args:
        documents: Number of the document that contains each position, shape (..., sequence).

    Returns:
        A boolean tensor of shape (..., 1, sequence, sequence), where the 1 stands for the heads.
    """
    same = documents[..., None, :, None] == documents[..., None, None, :]
    return same.tril()


def added_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a Boolean mask as numbers to add to the scores: 0, or minus infinity where False."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -math.inf)


def causal_attention(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the attention output where position i attends only to positions 0 .. i.

    Q, K, V and the result have shape (..., sequence, d_k). If a mask is given, it allows only some
    of these positions; see `document_mask`. It must not allow others.
    """
    if mask is None:
        sequence = Q.shape[-2]
        mask = torch.ones(sequence, sequence, dtype=torch.bool, device=Q.device).tril()
    return scaled_dot_product_attention(Q, K, V, mask)


def blocked_causal_attention(
    Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None, num_blocks: int = 4
) -> Tensor:
    """Compute `causal_attention` in blocks of queries, skipping part of the masked scores.

    Q, K, V and the result have shape (..., sequence, d_k). The result has the dtype of V. The
    queries are split into `num_blocks` blocks of equal length; the last one may be shorter. Each
    block attends to the keys up to its own end, so n blocks skip (n - 1) / 2n of the scores. A mask
    must be an `added_mask`.

    Softmax is computed in float32 or float64. Memory use is quadratic in the sequence length.
    """
    Q = Q / math.sqrt(Q.shape[-1])  # cheaper than scaling the scores
    query_blocks, key_blocks, value_blocks = (x.chunk(num_blocks, dim=-2) for x in (Q, K, V))
    outputs = []
    for number, queries in enumerate(query_blocks, start=1):
        # Gradients of joined blocks are computed faster than gradients of overlapping slices.
        keys = torch.cat(key_blocks[:number], dim=-2)  # (..., end, d_k)
        values = torch.cat(value_blocks[:number], dim=-2)
        scores = at_least_float32(queries @ keys.transpose(-2, -1))  # (..., block, end)
        # Adding minus infinity hides later positions. This is faster than `masked_fill`.
        end = keys.shape[-2]
        start = end - queries.shape[-2]
        if mask is None:
            hidden = torch.full(scores.shape[-2:], -math.inf, device=Q.device).triu(start + 1)
        else:
            hidden = mask[..., start:end, :end]
        scores = scores + hidden
        exponentials = (scores - scores.amax(dim=-1, keepdim=True).detach()).exp()
        # Softmax divides by the sum. Dividing after the product with V takes fewer divisions.
        output = exponentials.to(V.dtype) @ values  # (..., block, d_k)
        output = at_least_float32(output) / exponentials.sum(dim=-1, keepdim=True)
        outputs.append(output.to(V.dtype))
    return torch.cat(outputs, dim=-2)


def fused_causal_attention(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
    """Compute `causal_attention` with PyTorch's fused kernel, which needs only linear memory.

    K and V may have fewer heads than Q; see `MultiHeadSelfAttention.for_queries`. A mask may be an
    `added_mask` of Q's dtype. The kernel makes such a mask of a Boolean one.
    """
    shares = Q.shape[:-2] != K.shape[:-2]
    return torch.nn.functional.scaled_dot_product_attention(
        Q, K, V, mask, is_causal=mask is None, enable_gqa=shares
    )


def fused_masked_attention(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor) -> Tensor:
    """Compute `scaled_dot_product_attention` with PyTorch's fused kernel.

    K and V may have fewer heads than Q.
    """
    shares = Q.shape[:-2] != K.shape[:-2]
    return torch.nn.functional.scaled_dot_product_attention(Q, K, V, mask, enable_gqa=shares)


CAUSAL_ATTENTION: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]] = {
    "sdpa": fused_causal_attention,
    "blocked": blocked_causal_attention,
    "reference": causal_attention,
}
"""Implementations of causal attention by the name used in `ModelConfig.attention`."""


class RotaryPositionalEmbedding(Module):
    """Rotary position embedding (RoPE), which rotates pairs of features by position-based angles.

    At position i, the features (2k, 2k + 1) are rotated by i * theta^(-2k / d_k), so positions
    affect the dot product of a query and a key only through their distance (Su et al. 2021,
    section 3.2).

    The tables `cos` and `sin`, (max_seq_len, d_k / 2) in float32, are buffers: they move with the
    module but are not saved, since the arguments determine them. The rotation is computed in
    float32, even under autocast. `.to(torch.bfloat16)` casts the tables; the `dtype` argument of
    TransformerLM does not.

    Args:
        theta: Base of the angles, positive and finite.
        d_k: Number of features in a query or key, even.
        max_seq_len: Number of positions in the tables.
        device: Device for the tables.
        scaling: See `scaled_frequencies`. None scales nothing.

    Raises:
        TypeError: If theta is not a number, or a size is not an int.
        ValueError: If d_k is odd, a size is not positive, or theta is not positive and finite.

    Example:
        >>> import torch
        >>> from cs336_basics.model import RotaryPositionalEmbedding
        >>> rope = RotaryPositionalEmbedding(theta=10_000.0, d_k=8, max_seq_len=16)
        >>> queries = torch.randn(1, 5, 8)
        >>> torch.equal(rope(queries)[:, 0], queries[:, 0])  # position 0 is not rotated
        True
    """

    cos: Tensor
    sin: Tensor

    def __init__(
        self,
        theta: float,
        d_k: int,
        max_seq_len: int,
        device: torch.device | str | None = None,
        *,
        scaling: tuple[float, float, float, float] | None = None,
    ) -> None:
        super().__init__()
        check_is_number("theta", theta)
        d_k = checked_integer("d_k", d_k, 1)
        max_seq_len = checked_integer("max_seq_len", max_seq_len, 1)
        if d_k % 2 != 0:
            raise InputError(
                f"must be even because RoPE rotates pairs of features, got {d_k}", argument="d_k"
            )
        if not 0 < theta < math.inf:
            raise InputError(f"must be positive and finite, got {theta}", argument="theta")
        position = torch.arange(max_seq_len, device=device, dtype=torch.float32)  # (max_seq_len,)
        feature = torch.arange(0, d_k, 2, device=device, dtype=torch.float32)  # (d_k / 2,)
        frequency = theta ** (-feature / d_k)  # (d_k / 2,)
        if scaling is not None:
            frequency = scaled_frequencies(frequency, *scaling)
        angle = torch.outer(position, frequency)  # (max_seq_len, d_k / 2)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, x: Tensor, token_positions: Tensor | None = None) -> Tensor:
        """Return x rotated by its positions, with the same shape and dtype.

        Args:
            x: Queries or keys, shape (..., sequence, d_k).
            token_positions: Integers in 0 .. max_seq_len - 1, shape (..., sequence), broadcast
                against the batch dimensions of x. Defaults to 0, 1, 2, ...

        Raises:
            ValueError: If there are no positions and x has more than `max_seq_len` of them.
            TypeError, IndexError: If the positions are not integers in this range; see
                `check_ids`.
        """
        if token_positions is not None:
            check_ids(token_positions, self.cos.shape[0], "token_positions")
        elif not torch.compiler.is_compiling() and x.shape[-2] > self.cos.shape[0]:
            raise InputError(
                f"must have at most {self.cos.shape[0]} positions, max_seq_len, got {x.shape[-2]}",
                argument="x",
            )
        positions = slice(x.shape[-2]) if token_positions is None else token_positions
        cos, sin = self.cos[positions], self.sin[positions]  # (..., sequence, d_k / 2) each
        pairs = x.reshape(*x.shape[:-1], x.shape[-1] // 2, 2)
        even, odd = pairs.unbind(-1)  # (..., sequence, d_k / 2) each
        rotated = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
        return rotated.flatten(-2).to(x.dtype)  # (..., sequence, d_k)


def scaled_frequencies(
    frequency: Tensor, factor: float, low: float, high: float, context_length: float
) -> Tensor:
    """Return rotary frequencies, in radians per position, as Llama 3.1 scales them for long texts.

    A frequency that turns fewer than `low` times in the original context is divided by `factor`,
    one that turns more than `high` times is unchanged, and those between are interpolated.

    Args:
        frequency: Frequencies, any shape.
        factor: Divisor of low frequencies.
        low, high: Numbers of turns in the original context, low < high.
        context_length: The original context length.
    """
    turns = context_length * frequency / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return frequency * (kept + (1 - kept) / factor)


class MultiHeadSelfAttention(Module):
    """Causal multi-head self-attention (Vaswani et al. 2017, section 3.2.2).

    Each head has d_k = d_v features. Several query heads may share a head of keys and values, which
    makes the cache smaller (Ainslie et al. 2023, "GQA: Training Generalized Multi-Query Transformer
    Models from Multi-Head Checkpoints").

    Args:
        d_model: Number of features per token.
        num_heads: Number of query heads, a divisor of d_model if `d_head` is None.
        rope: Rotation of queries and keys, shared by all layers of a model. None means no
            position embedding.
        attention: Key of CAUSAL_ATTENTION. The results are equal up to rounding. "blocked" falls
            back to PyTorch's kernel when a cache is used.
        qk_norm_eps: If given, queries and keys pass through an RMSNorm with this eps before RoPE
            (Henry et al. 2020, "Query-Key Normalization"; the use of RMSNorm with gains follows
            later models).
        device: Device of the weights.
        dtype: Dtype of the weights.
        num_kv_heads: Number of heads of keys and values, a divisor of num_heads. Defaults to
            num_heads.
        d_head: Number of features per head, d_k. Defaults to d_model / num_heads.
        qkv_bias: Whether queries, keys and values have biases.

    Raises:
        TypeError: If a number is not an int.
        ValueError: If num_heads does not divide d_model, num_kv_heads does not divide num_heads,
            `rope` has a different d_k, or `attention` is unknown.

    Example:
        >>> import torch
        >>> from cs336_basics.model import MultiHeadSelfAttention
        >>> MultiHeadSelfAttention(16, num_heads=2)(torch.zeros(1, 5, 16)).shape
        torch.Size([1, 5, 16])
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
        *,
        num_kv_heads: int | None = None,
        d_head: int | None = None,
        qkv_bias: bool = False,
    ) -> None:
        super().__init__()
        d_model = checked_integer("d_model", d_model, 1)
        num_heads = checked_integer("num_heads", num_heads, 1)
        if d_head is None and d_model % num_heads != 0:
            raise InputError(
                f"must divide d_model ({d_model}), got {num_heads}", argument="num_heads"
            )
        kv_heads = num_heads
        if num_kv_heads is not None:
            kv_heads = checked_integer("num_kv_heads", num_kv_heads, 1)
        if num_heads % kv_heads != 0:
            raise InputError(
                f"must divide num_heads ({num_heads}), got {kv_heads}", argument="num_kv_heads"
            )
        d_k = d_model // num_heads if d_head is None else checked_integer("d_head", d_head, 1)
        if rope is not None and d_k != 2 * rope.cos.shape[1]:
            raise InputError(
                f"must have d_k {d_k}, got d_k {2 * rope.cos.shape[1]}", argument="rope"
            )
        check_choice("attention", attention, CAUSAL_ATTENTION)
        self.num_heads = num_heads
        self.queries_per_key = num_heads // kv_heads
        """Number of query heads that share a head of keys and values."""
        self._attend = CAUSAL_ATTENTION[attention]
        self._attend_masked: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor] = (
            scaled_dot_product_attention if attention == "reference" else fused_masked_attention
        )
        self.rope = rope
        width, kv_width = num_heads * d_k, kv_heads * d_k
        self.q_proj = Linear(d_model, width, device=device, dtype=dtype, bias=qkv_bias)
        self.k_proj = Linear(d_model, kv_width, device=device, dtype=dtype, bias=qkv_bias)
        self.v_proj = Linear(d_model, kv_width, device=device, dtype=dtype, bias=qkv_bias)
        self.output_proj = Linear(width, d_model, device=device, dtype=dtype)
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
        mask: Tensor | None = None,
    ) -> Tensor:
        """Return the attention output for x, with the same shape.

        Each position of x attends to itself and to earlier positions.

        Args:
            x: Shape (..., sequence, d_model), or (batch, sequence, d_model) with a cache.
            token_positions: Positions for RoPE, shape (..., sequence), broadcast against the batch
                dimensions of x. They do not affect the causal mask, which follows the order in x.
                Required with a cache, with shape (batch, sequence).
            cache: Keys and values of earlier tokens, to which x also attends. The call adds the
                keys and values of x.
            mask: Mask for the implementation of attention, broadcast against (..., heads, sequence,
                sequence). Not used with a cache.
        """
        q, k, v = self.project(x, token_positions)  # (..., heads, sequence, d_k) each
        # k and v may have fewer heads than q.
        if cache is not None:
            assert token_positions is not None
            heads = self._attend_to_cache(q, k, v, token_positions, cache)
        else:
            if self._attend is not fused_causal_attention:  # this one repeats nothing
                k, v = self.for_queries(k), self.for_queries(v)
            heads = self._attend(q, k, v, mask)

        joined = heads.transpose(-3, -2).flatten(-2)  # (..., sequence, heads * d_k)
        return self.output_proj(joined)  # (..., sequence, d_model)

    def project(
        self, x: Tensor, token_positions: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the queries and keys, normalized and rotated as configured, and the values.

        Each has shape (..., heads, sequence, d_k). Keys and values have `queries_per_key` times
        fewer heads than queries; see `for_queries`. See `forward` for the arguments.
        """
        kv_heads = self.num_heads // self.queries_per_key
        q, k, v = [
            linear(x).unflatten(-1, (heads, -1)).transpose(-3, -2)
            for linear, heads in (
                (self.q_proj, self.num_heads),
                (self.k_proj, kv_heads),
                (self.v_proj, kv_heads),
            )
        ]
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        if self.rope is not None:
            # All heads share the positions: (..., 1, sequence).
            positions = None if token_positions is None else token_positions.unsqueeze(-2)
            q, k = self.rope(q, positions), self.rope(k, positions)
        return q, k, v

    def for_queries(self, x: Tensor) -> Tensor:
        """Return keys or values (..., heads, sequence, d_k) repeated for each query head."""
        if self.queries_per_key == 1:
            return x
        return x.repeat_interleave(self.queries_per_key, dim=-3)

    def _attend_to_cache(
        self, q: Tensor, k: Tensor, v: Tensor, token_positions: Tensor, cache: LayerCache
    ) -> Tensor:
        """Store k and v, then let each query attend to the slots up to its own.

        q, k and v have shape (batch, heads, sequence, d_k), k and v perhaps with fewer heads.
        """
        cache.store(k, v, token_positions)
        keys, values = cache.keys.to(q.dtype), cache.values.to(q.dtype)
        if self._attend_masked is not fused_masked_attention:
            keys, values = self.for_queries(keys), self.for_queries(values)
        slots = torch.arange(keys.shape[-2], device=q.device)
        mask = slots <= token_positions[:, None, :, None]  # (batch, 1, sequence, slots)
        return self._attend_masked(q, keys, values, mask)
