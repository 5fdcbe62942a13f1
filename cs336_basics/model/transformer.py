"""The Transformer language model: its configuration, one block, the whole.

The default is the model of today's open language models: pre-norm with RMSNorm, rotary positions,
SwiGLU, no biases, an output head of its own (Touvron et al. 2023, "LLaMA"). Switches turn on what
has since been found to train better, or off what the course's experiments do without.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal

import torch
from torch import Tensor
from torch.nn import Module, ModuleList, init

from cs336_basics.model.attention import MultiHeadSelfAttention, RotaryPositionalEmbedding
from cs336_basics.model.kv_cache import KVCache, LayerCache
from cs336_basics.model.layers import (
    Embedding,
    Linear,
    RMSNorm,
    SiLUFeedForward,
    SwiGLU,
    at_least_float32,
    linear,
)


@dataclass(frozen=True)
class ModelConfig:
    """The shape of a TransformerLM, and which variant of it to build.

    The defaults are CS336's TinyStories model. It cannot be changed once made:
    `dataclasses.replace(config, num_layers=6)` makes another, checked like the first.

    Raises ValueError, or TypeError for a wrong type, naming the value that will not do.
    """

    vocab_size: int = 10_000
    """Number of token ids."""
    context_length: int = 256
    """Longest sequence the model takes, in tokens."""
    d_model: int = 512
    """Features per token between the layers."""
    num_layers: int = 4
    """Number of Transformer blocks."""
    num_heads: int = 16
    """Attention heads per block; they divide d_model among them."""
    d_ff: int = 1344
    """Inner features of the feed-forward network. For ffn="swiglu" about 8/3 d_model, in multiples
    of 64; for ffn="silu" the size with as many parameters is 4 d_model."""
    rope_theta: float = 10_000.0
    """Base of the rotary angles."""
    norm: Literal["pre", "post", "none"] = "pre"
    """Where RMSNorm stands. "pre": before each sublayer and before the head; "post": after each
    residual sum, so that the head's input is normalized without a final norm; "none": nowhere."""
    position: Literal["rope", "none"] = "rope"
    """Rotary positions, or none but what the causal mask gives away."""
    ffn: Literal["swiglu", "silu"] = "swiglu"
    """Feed-forward network: W2 (SiLU(W1 x) * W3 x), or W2 SiLU(W1 x)."""
    attention: Literal["sdpa", "reference"] = "sdpa"
    """PyTorch's fused attention, or the readable one. Same weights, same results."""
    norm_eps: float = 1e-5
    """Added to the mean square in RMSNorm."""
    qk_norm: bool = False
    """RMSNorm on each head's queries and keys, before RoPE: attention scores cannot explode, so
    larger learning rates stay stable (Henry et al. 2020; Dehghani et al. 2023, section 2)."""
    tied_embeddings: bool = False
    """The head shares the embedding's table, which is scaled by sqrt(d_model) where it is looked
    up: fewer weights, each token learned from both sides (Press & Wolf 2017; Vaswani et al. 2017,
    section 3.4)."""
    zero_init: bool = False
    """The last matrix of each sublayer starts at zero, so that each block starts as the identity
    and the signal neither grows nor fades with depth (Zhang et al. 2019, "Fixup"; Bachlechner et
    al. 2020, "ReZero")."""
    logit_soft_cap: float | None = None
    """Logits become cap * tanh(logits / cap), so that none can run away and the loss stays smooth
    (Gemma Team 2024, "Gemma 2", section 2). None: as they are."""

    def __post_init__(self) -> None:
        """Refuse values that no model can be built from."""
        choices = {
            "norm": ("pre", "post", "none"),
            "position": ("rope", "none"),
            "ffn": ("swiglu", "silu"),
            "attention": ("sdpa", "reference"),
        }
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if name in choices:
                if value not in choices[name]:
                    names = ", ".join(choices[name])
                    raise ValueError(f"{name} must be one of {names}; not {value!r}")
            elif name == "logit_soft_cap" and value is None:
                continue
            elif name in ("rope_theta", "norm_eps", "logit_soft_cap"):
                if isinstance(value, bool) or not isinstance(value, (int, float)):
                    raise TypeError(f"{name} must be a number, not {value!r}")
                if not (math.isfinite(value) and value > 0):
                    raise ValueError(f"{name} must be positive and finite, not {value}")
            elif name in ("qk_norm", "tied_embeddings", "zero_init"):
                if not isinstance(value, bool):
                    raise TypeError(f"{name} must be true or false, not {value!r}")
            else:
                if isinstance(value, bool) or not isinstance(value, int):
                    raise TypeError(f"{name} must be a whole number, not {value!r}")
                if value < 1:
                    raise ValueError(f"{name} must be at least 1, not {value}")
        if self.d_model % self.num_heads != 0:
            raise ValueError(
                f"num_heads must divide d_model: {self.num_heads} does not divide {self.d_model}"
            )
        if self.position == "rope" and self.d_head % 2 != 0:
            raise ValueError(
                "RoPE turns pairs of features: d_model / num_heads must be even, not "
                f"{self.d_model} / {self.num_heads} = {self.d_head}"
            )

    @property
    def d_head(self) -> int:
        """Features per attention head, the d_k of the paper."""
        return self.d_model // self.num_heads

    def num_parameters(self) -> int:
        """Number of weights of the model, without building it."""
        attention = 4 * self.d_model * self.d_model
        feed_forward = (3 if self.ffn == "swiglu" else 2) * self.d_model * self.d_ff
        gains = 0 if self.norm == "none" else 2 * self.d_model
        gains += 2 * self.d_head if self.qk_norm else 0
        final_gain = self.d_model if self.norm == "pre" else 0
        tables = 1 if self.tied_embeddings else 2  # of the embedding and the head
        embedding_and_head = tables * self.vocab_size * self.d_model
        blocks = self.num_layers * (attention + feed_forward + gains)
        return embedding_and_head + blocks + final_gain


class TransformerBlock(Module):
    """One layer: self-attention, then the feed-forward network, each with a residual connection.

    `rope` is shared by all blocks of a model; None leaves positions out.
    """

    def __init__(
        self,
        config: ModelConfig,
        rope: RotaryPositionalEmbedding | None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.norm = config.norm
        self.attn = MultiHeadSelfAttention(
            config.d_model,
            config.num_heads,
            rope,
            config.attention,
            qk_norm_eps=config.norm_eps if config.qk_norm else None,
            device=device,
            dtype=dtype,
        )
        feed_forward = SwiGLU if config.ffn == "swiglu" else SiLUFeedForward
        self.ffn = feed_forward(config.d_model, config.d_ff, device=device, dtype=dtype)
        if self.norm != "none":
            self.ln1 = RMSNorm(config.d_model, config.norm_eps, device=device, dtype=dtype)
            self.ln2 = RMSNorm(config.d_model, config.norm_eps, device=device, dtype=dtype)
        if config.zero_init:
            init.zeros_(self.attn.output_proj.weight)
            init.zeros_(self.ffn.w2.weight)

    def forward(
        self,
        x: Tensor,
        token_positions: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """Transform x: (..., sequence, d_model) into the same shape; `cache` goes to attention."""
        if self.norm == "pre":  # Xiong et al. 2020: the residual stream itself is never rescaled
            x = x + self.attn(self.ln1(x), token_positions, cache)
            x = x + self.ffn(self.ln2(x))
        elif self.norm == "post":  # Vaswani et al. 2017
            x = self.ln1(x + self.attn(x, token_positions, cache))
            x = self.ln2(x + self.ffn(x))
        else:
            x = x + self.attn(x, token_positions, cache)
            x = x + self.ffn(x)
        return x


class TransformerLM(Module):
    """A causal Transformer language model: token ids in, logits of each next token out.

    Parameters are float32 on the CPU unless `device` and `dtype` say otherwise. The state-dict
    keys are `token_embeddings`, `layers.N.attn.{q,k,v,output}_proj`, `layers.N.{ln1,ln2}`,
    `layers.N.ffn.{w1,w2,w3}`, `ln_final` and `lm_head`, each followed by `.weight`; with qk_norm
    also `layers.N.attn.{q,k}_norm`. With tied embeddings there is no `lm_head`: whatever works on
    parameters, state dicts or files meets the shared table once.
    """

    def __init__(
        self,
        config: ModelConfig,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.token_embeddings = Embedding(
            config.vocab_size, config.d_model, device=device, dtype=dtype
        )
        rope = None
        if config.position == "rope":
            rope = RotaryPositionalEmbedding(
                config.rope_theta, config.d_head, config.context_length, device=device
            )
        self.layers = ModuleList(
            TransformerBlock(config, rope, device=device, dtype=dtype)
            for _ in range(config.num_layers)
        )
        self.ln_final = None
        if config.norm == "pre":
            self.ln_final = RMSNorm(config.d_model, config.norm_eps, device=device, dtype=dtype)
        self.lm_head: Linear | None = None
        self.embedding_scale = 1.0
        if config.tied_embeddings:
            # As a head the table wants small entries, as an embedding entries of about 1.
            self.embedding_scale = math.sqrt(config.d_model)
            with torch.no_grad():
                self.token_embeddings.weight.div_(self.embedding_scale)
        else:
            self.lm_head = Linear(config.d_model, config.vocab_size, device=device, dtype=dtype)

    def forward(self, token_ids: Tensor, cache: KVCache | None = None) -> Tensor:
        """Return logits (..., sequence, vocab_size) for token_ids (..., sequence), int32 or int64.

        The logits at position i depend on the tokens 0 .. i only and predict token i + 1.

        With a `cache`, token_ids are (batch, sequence) and continue the texts that it holds, which
        they join: the logits are those of the whole texts' last positions, up to rounding.

        Raises ValueError where the texts become longer than the context length, and IndexError (on
        the CPU, not under `torch.compile`) for an id outside the vocabulary.
        """
        return self.logits(self.hidden_states(token_ids, cache))

    def hidden_states(self, token_ids: Tensor, cache: KVCache | None = None) -> Tensor:
        """Return what the logits are computed from, (..., sequence, d_model); see `forward`."""
        sequence = token_ids.shape[-1]
        positions = None
        layer_caches: list[LayerCache | None] = [None] * len(self.layers)
        if cache is not None:
            positions = cache.positions_after(token_ids)  # (batch, sequence)
            layer_caches = [*cache.visible(sequence)]
        elif sequence > self.config.context_length:
            raise ValueError(
                f"the sequence has {sequence} tokens, the context length is "
                f"{self.config.context_length}: keep only the last tokens"
            )
        x: Tensor = self.token_embeddings(token_ids)  # (..., sequence, d_model)
        if self.config.tied_embeddings:
            x = x * self.embedding_scale
        for layer, layer_cache in zip(self.layers, layer_caches, strict=True):
            x = layer(x, positions, layer_cache)  # (..., sequence, d_model)
        if cache is not None:
            cache.advance(sequence)
        if self.ln_final is not None:
            x = self.ln_final(x)  # (..., sequence, d_model)
        return x

    def logits(self, hidden_states: Tensor) -> Tensor:
        """Return the logits (..., vocab_size) of hidden states (..., d_model)."""
        logits = linear(hidden_states, self.head_weight)
        if self.config.logit_soft_cap is not None:
            cap = self.config.logit_soft_cap
            logits = cap * torch.tanh(at_least_float32(logits) / cap)
        return logits

    @property
    def head_weight(self) -> Tensor:
        """The output head's matrix, (vocab_size, d_model), whether it is tied or not."""
        return self.token_embeddings.weight if self.lm_head is None else self.lm_head.weight
