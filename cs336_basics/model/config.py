"""The configuration of a Transformer language model: its shape and its variants."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_type_hints

from cs336_basics._support.messages import short_repr

Attention = Literal["sdpa", "blocked", "reference"]


@dataclass(frozen=True)
class ModelConfig:
    """The shape of a TransformerLM and the variant of it to build.

    The defaults are the TinyStories model of CS336. A configuration is immutable:
    `dataclasses.replace(config, num_layers=6)` returns a new one, which is checked as well.

    Raises:
        TypeError: a value has the wrong type.
        ValueError: a value is out of range, or two values contradict each other.
    """

    vocab_size: int = 10_000
    """Number of token ids."""
    context_length: int = 256
    """Longest sequence the model takes, in tokens."""
    d_model: int = 512
    """Features of each token between the layers."""
    num_layers: int = 4
    """Number of Transformer blocks."""
    num_heads: int = 16
    """Attention heads of each block. Must divide d_model."""
    d_ff: int = 1344
    """Inner features of the feed-forward network. Usual values are 8/3 d_model, rounded to a
    multiple of 64, for ffn="swiglu" and 4 d_model for ffn="silu": as many weights."""
    rope_theta: float = 10_000.0
    """Base of the rotary angles."""
    norm: Literal["pre", "post", "none"] = "pre"
    """Where RMSNorm is applied. "pre": before each sublayer and before the head; "post": after each
    residual sum, which needs no final norm; "none": nowhere."""
    position: Literal["rope", "none"] = "rope"
    """Position information: rotary embeddings, or only what the causal mask reveals."""
    ffn: Literal["swiglu", "silu"] = "swiglu"
    """Feed-forward network: W2 (SiLU(W1 x) * W3 x), or W2 SiLU(W1 x)."""
    attention: Attention = "sdpa"
    """Implementation of attention: PyTorch's fused kernel ("sdpa"), products over two blocks of
    queries ("blocked"), or the readable one ("reference"). The weights are the same, and so are the
    results, up to rounding."""
    norm_eps: float = 1e-5
    """Added to the mean square in RMSNorm."""
    qk_norm: bool = False
    """RMSNorm on the queries and keys of each head, before RoPE. It bounds the attention scores, so
    larger learning rates stay stable (Henry et al. 2020; Dehghani et al. 2023, section 2)."""
    tied_embeddings: bool = False
    """The head shares the embedding's table, whose rows are scaled by sqrt(d_model) when they are
    looked up (Press & Wolf 2017; Vaswani et al. 2017, section 3.4)."""
    zero_init: bool = False
    """The last matrix of each sublayer starts at zero, so each block starts as the identity and the
    signal keeps its size with depth (Zhang et al. 2019, "Fixup"; Bachlechner et al. 2020,
    "ReZero")."""
    logit_soft_cap: float | None = None
    """Logits become cap * tanh(logits / cap), which bounds them (Gemma Team 2024, "Gemma 2",
    section 2). None: unchanged."""

    def __post_init__(self) -> None:
        """Refuse values from which no model can be built."""
        kinds = get_type_hints(type(self))
        for field in fields(self):
            value = getattr(self, field.name)
            if hasattr(value, "item"):  # of NumPy: configurations are written as YAML and JSON
                value = value.item()
                object.__setattr__(self, field.name, value)
            _check_value(field.name, value, kinds[field.name])
        if self.d_model % self.num_heads != 0:
            raise ValueError(
                f"num_heads must divide d_model: {self.num_heads} does not divide {self.d_model}"
            )
        if self.position == "rope" and self.d_head % 2 != 0:
            raise ValueError(
                "RoPE rotates pairs of features: d_model / num_heads must be even, not "
                f"{self.d_model} / {self.num_heads} = {self.d_head}"
            )

    @property
    def d_head(self) -> int:
        """Features of each attention head, d_k in Vaswani et al. 2017."""
        return self.d_model // self.num_heads

    def num_parameters(self) -> int:
        """Return the number of weights of the model without building it."""
        return sum(self.parameters_by_part().values())

    def parameters_by_part(self) -> dict[str, int]:
        """Return the number of weights of each part: of all blocks together, and of the tables.

        The parts are "embedding", "attention", "feed-forward", "norms" and "head". Tied embeddings
        have no weights in "head".
        """
        table = self.vocab_size * self.d_model
        matrices = 3 if self.ffn == "swiglu" else 2
        gains = 0 if self.norm == "none" else 2 * self.d_model
        gains += 2 * self.d_head if self.qk_norm else 0
        final_gain = self.d_model if self.norm == "pre" else 0
        return {
            "embedding": table,
            "attention": self.num_layers * 4 * self.d_model**2,
            "feed-forward": self.num_layers * matrices * self.d_model * self.d_ff,
            "norms": self.num_layers * gains + final_gain,
            "head": 0 if self.tied_embeddings else table,
        }


_SMALLEST, _LARGEST = 2.0**-126, 2.0**128
"""The normal numbers of float32 are from the first to below the second."""


def _check_value(name: str, value: Any, kind: Any) -> None:
    """Check one value against the type of its field; see ModelConfig for the errors."""
    if kind is bool:
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be true or false, not {short_repr(value)}")
    elif kind is int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be an integer, not {short_repr(value)}")
        if value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}")
    elif kind is float or kind == float | None:
        if value is None and kind is not float:
            return
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"{name} must be a number, not {short_repr(value)}")
        if not _SMALLEST <= value < _LARGEST:
            raise ValueError(
                f"{name} must be positive and finite in float32, not {short_repr(value)}"
            )
    elif value not in get_args(kind):
        raise ValueError(
            f"{name} must be one of {', '.join(get_args(kind))}; not {short_repr(value)}"
        )
