"""The Transformer language model and the block that it repeats.

The default is the architecture of current open language models: pre-norm with RMSNorm, rotary
embeddings, SwiGLU, no biases, and a separate output head (Touvron et al. 2023, "LLaMA"). Options in
`ModelConfig` turn on later improvements to training, or turn off parts for CS336's ablations.
"""

# Calling a torch Module returns Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import Module, ModuleList
from torch.nn.functional import dropout
from torch.utils.checkpoint import checkpoint

from cs336_basics._support.errors import InputError
from cs336_basics.model.attention import (
    MultiHeadSelfAttention,
    RotaryPositionalEmbedding,
    added_mask,
    document_mask,
)
from cs336_basics.model.bigrams import NO_TOKEN, BigramEmbedding, previous_tokens
from cs336_basics.model.config import ModelConfig
from cs336_basics.model.init import start_model
from cs336_basics.model.kv_cache import KVCache, LayerCache
from cs336_basics.model.layers import (
    Embedding,
    Linear,
    RMSNorm,
    SiLUFeedForward,
    SwiGLU,
    at_least_float32,
    check_is_tensor,
)
from cs336_basics.model.shapes import Role, weights


class TransformerBlock(Module):
    """One layer: self-attention, then the feed-forward network, each with a residual connection.

    Args:
        config: Configuration of the model.
        rope: Rotation of queries and keys, shared by all blocks of a model.
        device: Device of the weights.
        dtype: Dtype of the weights.
        dropout: See `TransformerLM`.
        recompute: See `TransformerLM`.

    Example:
        >>> import torch
        >>> from cs336_basics.model import ModelConfig, TransformerBlock
        >>> config = ModelConfig(d_model=16, num_heads=2, position="none")
        >>> TransformerBlock(config, rope=None)(torch.zeros(1, 5, 16)).shape
        torch.Size([1, 5, 16])
    """

    def __init__(
        self,
        config: ModelConfig,
        rope: RotaryPositionalEmbedding | None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        dropout: float = 0.0,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.recompute = recompute
        self.norm = config.norm
        self.attn = MultiHeadSelfAttention(
            config.d_model,
            config.num_heads,
            rope,
            config.attention,
            qk_norm_eps=config.norm_eps if config.qk_norm else None,
            device=device,
            dtype=dtype,
            num_kv_heads=config.kv_heads,
            d_head=config.d_head,
            qkv_bias=config.qkv_bias,
        )
        feed_forward = SwiGLU if config.ffn == "swiglu" else SiLUFeedForward
        self.ffn = feed_forward(config.d_model, config.d_ff, device=device, dtype=dtype)
        if self.norm != "none":
            self.ln1 = RMSNorm(config.d_model, config.norm_eps, device=device, dtype=dtype)
            self.ln2 = RMSNorm(config.d_model, config.norm_eps, device=device, dtype=dtype)

    def forward(
        self,
        x: Tensor,
        token_positions: Tensor | None = None,
        cache: LayerCache | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Transform x, (..., sequence, d_model); see `MultiHeadSelfAttention.forward`."""
        if self.recompute:
            return checkpoint(self._transform, x, token_positions, cache, mask, use_reentrant=False)
        return self._transform(x, token_positions, cache, mask)

    def _transform(
        self,
        x: Tensor,
        token_positions: Tensor | None,
        cache: LayerCache | None,
        mask: Tensor | None,
    ) -> Tensor:
        if self.norm == "pre":  # Xiong et al. 2020: the residual stream itself is never rescaled
            x = x + self._drop(self.attn(self.ln1(x), token_positions, cache, mask))
            x = x + self._drop(self.ffn(self.ln2(x)))
        elif self.norm == "post":  # Vaswani et al. 2017
            x = self.ln1(x + self._drop(self.attn(x, token_positions, cache, mask)))
            x = self.ln2(x + self._drop(self.ffn(x)))
        else:
            x = x + self._drop(self.attn(x, token_positions, cache, mask))
            x = x + self._drop(self.ffn(x))
        return x

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout) if self.dropout and self.training else x


class TransformerLM(Module):
    """A causal Transformer language model, which maps token ids to logits for each next token.

    Parameters default to float32 on the CPU. The state-dict keys are `token_embeddings`,
    `layers.N.attn.{q,k,v,output}_proj`, `layers.N.{ln1,ln2}`, `layers.N.ffn.{w1,w2,w3}`, `ln_final`
    and `lm_head`, each followed by `.weight`. The `qk_norm` option adds `layers.N.attn.{q,k}_norm`,
    `qkv_bias` adds `layers.N.attn.{q,k,v}_proj.bias`, and `bigram_rows` adds
    `bigram_embeddings.{weight,scale}`. With tied embeddings, there is no `lm_head`, so the
    parameters and the state dict contain the shared table once.

    Args:
        config: Shape and architecture.
        device: Device of the weights.
        dtype: Dtype of the weights.
        dropout: Fraction of the features to drop in training mode, which keeps a model from
            memorizing a text that it reads many times. Each feature of the embeddings and of a
            sublayer's output is set to zero with this probability. The others are divided by
            `1 - dropout`, which preserves their mean (Vaswani et al. 2017, section 5.4).
        recompute: Whether each block stores only its input, and recomputes its activations in the
            backward pass. A block then keeps a single (batch, sequence, d_model) tensor, at the
            cost of a third more arithmetic (Chen et al. 2016, "Training Deep Nets with Sublinear
            Memory Cost"). The results are bit-identical.

    Example:
        >>> import torch
        >>> from cs336_basics import ModelConfig, TransformerLM
        >>> model = TransformerLM(ModelConfig(vocab_size=50, d_model=16, num_layers=1, num_heads=2))
        >>> model(torch.tensor([[1, 2, 3]])).shape  # (batch, sequence, vocab_size)
        torch.Size([1, 3, 50])
    """

    def __init__(
        self,
        config: ModelConfig,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        dropout: float = 0.0,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        self.config = config
        self.dropout = dropout
        self.token_embeddings = Embedding(
            config.vocab_size, config.d_model, device=device, dtype=dtype
        )
        self.bigram_embeddings: BigramEmbedding | None = None
        if config.bigram_rows:
            self.bigram_embeddings = BigramEmbedding(
                config.bigram_rows, config.d_model, device=device, dtype=dtype
            )
        rope = None
        if config.position == "rope":
            rope = RotaryPositionalEmbedding(
                config.rope_theta,
                config.d_head,
                config.context_length,
                device=device,
                scaling=config.rope_scaling,
            )
        self.layers = ModuleList(
            TransformerBlock(
                config, rope, device=device, dtype=dtype, dropout=dropout, recompute=recompute
            )
            for _ in range(config.num_layers)
        )
        self.ln_final = None
        if config.norm == "pre":
            self.ln_final = RMSNorm(config.d_model, config.norm_eps, device=device, dtype=dtype)
        self.lm_head: Linear | None = None
        self.embedding_scale = config.embedding_factor
        if not config.tied_embeddings:
            self.lm_head = Linear(config.d_model, config.vocab_size, device=device, dtype=dtype)
        start_model(self)

    def forward(
        self, token_ids: Tensor, cache: KVCache | None = None, documents: Tensor | None = None
    ) -> Tensor:
        """Return the logits for the token after each position, (..., sequence, vocab_size).

        The logits at position i depend only on tokens 0 .. i, or on those of them that are in the
        same document.

        Args:
            token_ids: int32 or int64, shape (..., sequence), or (batch, sequence) with a cache.
            cache: Keys and values of the earlier tokens of each text. `token_ids` continue the
                texts, and the call adds their keys and values. Up to rounding, the logits equal
                those computed from the complete texts.
            documents: Number of the document that contains each token, with the shape of
                `token_ids`. No document then affects another, so the logits of each equal those
                computed from this document alone, up to rounding: positions continue over the
                sequence, but RoPE depends only on distances. Cannot be given with a cache.

        Raises:
            ValueError: If a text would exceed the context length, or `documents` has another shape
                or is given with a cache.
            TypeError: If the ids have another dtype.
            IndexError: If an id is outside the vocabulary (checked only on the CPU, and not under
                `torch.compile`).
        """
        return self.logits(self.hidden_states(token_ids, cache, documents))

    def hidden_states(
        self, token_ids: Tensor, cache: KVCache | None = None, documents: Tensor | None = None
    ) -> Tensor:
        """Return the input to the output head, (..., sequence, d_model); see `forward`."""
        check_is_tensor("token_ids", token_ids)
        sequence = token_ids.shape[-1]
        length = sequence + (max(cache.lengths) if cache is not None else 0)
        if length > self.config.context_length:
            raise InputError(
                f"must have at most {self.config.context_length} tokens, the context length, got "
                f"{length} including any cached tokens",
                argument="token_ids",
                remedy="keep only the last tokens",
            )
        mask = None if documents is None else self._document_mask(token_ids, cache, documents)

        positions: Tensor | None = None
        layer_caches: Sequence[LayerCache | None] = [None] * len(self.layers)
        if cache is not None:
            positions = cache.positions_after(sequence, token_ids.device)  # (batch, sequence)
            layer_caches = cache.visible(sequence)
        x = self.embed(token_ids, cache, documents)  # (..., sequence, d_model)
        for layer, layer_cache in zip(self.layers, layer_caches, strict=True):
            x = layer(x, positions, layer_cache, mask)  # (..., sequence, d_model)
        if cache is not None:
            cache.advance(sequence)
        if self.ln_final is not None:
            x = self.ln_final(x)  # (..., sequence, d_model)
        return x

    def _document_mask(self, token_ids: Tensor, cache: KVCache | None, documents: Tensor) -> Tensor:
        if cache is not None:
            raise InputError("cannot be given with a cache", argument="documents")
        if documents.shape != token_ids.shape:
            raise InputError(
                f"must have shape {tuple(token_ids.shape)}, the shape of token_ids, got "
                f"{tuple(documents.shape)}",
                argument="documents",
            )
        mask = document_mask(documents)
        if self.config.attention == "reference":
            return mask
        # All layers share these numbers, which each would otherwise make and keep for its gradient.
        device = token_ids.device.type
        has_autocast = torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if has_autocast else self.head_weight.dtype
        return added_mask(mask, dtype)

    def embed(
        self, token_ids: Tensor, cache: KVCache | None = None, documents: Tensor | None = None
    ) -> Tensor:
        """Return the input to the first block, (..., sequence, d_model); see `forward`.

        A cache receives the ids, if the model needs them.
        """
        x: Tensor = self.token_embeddings(token_ids)
        if self.bigram_embeddings is not None:
            first = torch.full_like(token_ids[..., :1], NO_TOKEN)
            if cache is not None:
                first = cache.store_ids(token_ids)
            previous = previous_tokens(token_ids, first, documents)
            x = x + self.bigram_embeddings(previous, token_ids)
        if self.dropout and self.training:
            x = dropout(x, self.dropout)
        return x if self.embedding_scale == 1 else x * self.embedding_scale

    def logits(self, hidden_states: Tensor) -> Tensor:
        """Return the logits (..., vocab_size) for hidden states (..., d_model)."""
        if self.lm_head is None:
            logits = hidden_states @ self.token_embeddings.weight.T
        else:
            logits = self.lm_head(hidden_states)
        if self.config.logit_soft_cap is not None:
            cap = self.config.logit_soft_cap
            logits = cap * torch.tanh(at_least_float32(logits) / cap)
        return logits

    def parameter_roles(self) -> dict[str, Role]:
        """Return the role of each parameter, such as "matrix", by its name in the state dict."""
        return {name: weight.role for weight in weights(self.config) for name in weight.names()}

    @property
    def head_weight(self) -> Tensor:
        """The matrix of the output head, (vocab_size, d_model). It may be the embedding table."""
        return self.token_embeddings.weight if self.lm_head is None else self.lm_head.weight
