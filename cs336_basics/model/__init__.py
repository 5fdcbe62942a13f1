"""A Transformer language model that maps token ids to logits, written from scratch in PyTorch.

Reading order: `config.py`, `layers.py`, `attention.py`, `kv_cache.py` (for generation),
`transformer.py`. `accounting.py` counts a model's FLOPs and activations.
"""

from typing import TYPE_CHECKING

from cs336_basics._support.lazy import lazy_names

__all__ = [
    "Embedding",
    "KVCache",
    "Linear",
    "ModelConfig",
    "MultiHeadSelfAttention",
    "RMSNorm",
    "RotaryPositionalEmbedding",
    "SiLUFeedForward",
    "SwiGLU",
    "TransformerBlock",
    "TransformerLM",
    "resize_embeddings",
    "scaled_dot_product_attention",
    "select_embeddings",
    "silu",
    "softmax",
    "transfer_embeddings",
]

if TYPE_CHECKING:
    from cs336_basics.model.attention import (
        MultiHeadSelfAttention,
        RotaryPositionalEmbedding,
        scaled_dot_product_attention,
        softmax,
    )
    from cs336_basics.model.config import ModelConfig
    from cs336_basics.model.kv_cache import KVCache
    from cs336_basics.model.layers import Embedding, Linear, RMSNorm, SiLUFeedForward, SwiGLU, silu
    from cs336_basics.model.resizing import (
        resize_embeddings,
        select_embeddings,
        transfer_embeddings,
    )
    from cs336_basics.model.transformer import TransformerBlock, TransformerLM
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "cs336_basics.model.attention": "MultiHeadSelfAttention RotaryPositionalEmbedding "
            "scaled_dot_product_attention softmax",
            "cs336_basics.model.config": "ModelConfig",
            "cs336_basics.model.resizing": "resize_embeddings select_embeddings "
            "transfer_embeddings",
            "cs336_basics.model.kv_cache": "KVCache",
            "cs336_basics.model.layers": "Embedding Linear RMSNorm SiLUFeedForward SwiGLU silu",
            "cs336_basics.model.transformer": "TransformerBlock TransformerLM",
        },
    )
