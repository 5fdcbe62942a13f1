"""Adapters for the course's tests."""

from __future__ import annotations

import pytest
import torch

from tests import adapters


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_adapters_keep_the_dtype_of_the_weights(dtype):
    def random(*shape):
        return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)

    square = random(8, 8)
    block = {
        **{f"attn.{name}_proj.weight": square for name in ("q", "k", "v", "output")},
        "ln1.weight": random(8),
        "ln2.weight": random(8),
        "ffn.w1.weight": random(16, 8),
        "ffn.w2.weight": random(8, 16),
        "ffn.w3.weight": random(16, 8),
    }
    model = {
        "token_embeddings.weight": random(10, 8),
        **{f"layers.0.{name}": value for name, value in block.items()},
        "ln_final.weight": random(8),
        "lm_head.weight": random(10, 8),
    }
    x, ids = random(2, 4, 8), torch.arange(4)[None]
    ffn = (block["ffn.w1.weight"], block["ffn.w2.weight"], block["ffn.w3.weight"])
    attention = (square, square, square, square, x)
    for result in (
        adapters.run_linear(8, 8, square, x),
        adapters.run_embedding(10, 8, random(10, 8), ids),
        adapters.run_swiglu(8, 16, *ffn, x),
        adapters.run_multihead_self_attention(8, 2, *attention),
        adapters.run_multihead_self_attention_with_rope(8, 2, 4, 1e4, *attention, ids),
        adapters.run_transformer_block(8, 2, 16, 4, 1e4, block, x),
        adapters.run_transformer_lm(10, 4, 8, 1, 2, 16, 1e4, model, ids),
        adapters.run_rmsnorm(8, 1e-5, random(8), x),
    ):
        assert result.dtype == dtype
