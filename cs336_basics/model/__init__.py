"""The Transformer language model, from scratch on torch; it knows nothing of text.

Reading order: `config.py`, `layers.py`, `attention.py`, `kv_cache.py` (for generation),
`transformer.py`. `accounting.py` counts what a model costs.
"""

from cs336_basics.model.attention import (
    MultiHeadSelfAttention,
    RotaryPositionalEmbedding,
    scaled_dot_product_attention,
    softmax,
)
from cs336_basics.model.config import ModelConfig
from cs336_basics.model.embeddings import resize_embeddings, select_embeddings
from cs336_basics.model.kv_cache import KVCache
from cs336_basics.model.layers import Embedding, Linear, RMSNorm, SiLUFeedForward, SwiGLU, silu
from cs336_basics.model.transformer import TransformerBlock, TransformerLM

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
]
