"""The configuration of a Transformer language model: its shape and architecture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.validation import Amount, Checked, Count, option
from cs336_basics.model.shapes import PARTS, Part, weights


def _fits_float32(value: float) -> float:
    if not 2.0**-126 <= value < 2.0**128:
        raise InputError("must be positive and finite in float32")
    return value


Positive = Annotated[float, _fits_float32]

Attention = Literal["sdpa", "blocked", "reference"]


@dataclass(frozen=True)
class ModelConfig(Checked):
    """The shape and architecture of a TransformerLM.

    The defaults describe CS336's TinyStories model. A configuration is immutable. To change a
    value, call `dataclasses.replace(config, num_layers=6)`, which returns a new, checked
    configuration.

    Raises:
        ValueError: If a value has the wrong type or is out of range, or two values contradict each
            other.

    Example:
        >>> import dataclasses
        >>> from cs336_basics import ModelConfig
        >>> config = ModelConfig(vocab_size=1000, d_model=64, num_heads=4, d_ff=192)
        >>> dataclasses.replace(config, num_layers=2).num_parameters()
        234816
    """

    vocab_size: Count = option("number of token ids; a new tokenizer also gets this size", 10_000)
    context_length: Count = option("maximum sequence length in tokens", 256)
    d_model: Count = option("features per token between layers", 512)
    num_layers: Count = option("number of Transformer blocks", 4)
    num_heads: Count = option(
        "attention heads per block; must divide d_model, unless head_dim is set", 16
    )
    # Ainslie et al. 2023, "GQA".
    num_kv_heads: Count | None = option(
        "heads of keys and values, each shared by num_heads / num_kv_heads query heads; unset: "
        "num_heads",
        None,
    )
    head_dim: Count | None = option("features per attention head; unset: d_model / num_heads", None)
    d_ff: Count = option(
        "inner features of the feed-forward network; usually 8/3 d_model rounded to a multiple of "
        "64 for swiglu, or 4 d_model for silu (about the same number of weights)",
        1344,
    )
    rope_theta: Positive = option("base of the rotary angles", 10_000.0)
    # Grattafiori et al. 2024, "The Llama 3 Herd of Models"; the formula is in its code.
    rope_scaling: tuple[Positive, Positive, Positive, Positive] | None = option(
        "Llama 3's scaling of slow rotary angles, as [factor, low frequency factor, high frequency "
        "factor, original context length]; unset: none",
        None,
    )
    norm: Literal["pre", "post", "none"] = option(
        "apply RMSNorm before each sublayer and the head, after each residual sum, or nowhere",
        "pre",
    )
    position: Literal["rope", "none"] = option(
        "rotary embeddings, or no position information beyond the causal mask", "rope"
    )
    ffn: Literal["swiglu", "silu"] = option(
        "feed-forward network: W2 (SiLU(W1 x) * W3 x), or W2 SiLU(W1 x)", "swiglu"
    )
    attention: Attention = option(
        "PyTorch's fused kernel, matrix products over blocks of queries, or readable code; "
        "results are equal up to rounding",
        "sdpa",
        resumable=True,
        changes_rounding=True,
    )
    norm_eps: Positive = option("added to the mean square in RMSNorm", 1e-5)
    # Bounded attention scores keep training stable at larger learning rates (Henry et al. 2020;
    # Dehghani et al. 2023, section 2).
    qk_norm: bool = option("apply RMSNorm to the queries and keys of each head before RoPE", False)
    qkv_bias: bool = option("add a bias to queries, keys and values, as Qwen2 does", False)
    tied_embeddings: bool = option("share one table between the embedding and the head", False)
    # Press & Wolf 2017; Vaswani et al. 2017, section 3.4.
    embedding_scale: Positive | None = option(
        "factor of the embeddings; unset: sqrt(d_model) if they are tied, else 1", None
    )
    # Each block starts as the identity, so depth does not change the size of the signal (Zhang et
    # al. 2019, "Fixup"; Bachlechner et al. 2020, "ReZero").
    zero_init: bool = option("start the last matrix of each sublayer at zero", False)
    # Gemma Team 2024, "Gemma 2", section 2.
    logit_soft_cap: Positive | None = option(
        "bound the logits as cap * tanh(logits / cap); unset: no bound", None
    )
    # Every model needs such heads, and here they need not be found (cf. Trockman & Kolter 2023,
    # "Mimetic Initialization of Self-Attention Layers").
    previous_token_heads: Amount = option(
        "heads of the first block that start by attending to the token 1, 2, ... positions before",
        0,
    )
    # The sources are in bigrams.py.
    bigram_rows: Amount = option(
        "rows of a table of vectors for pairs of tokens, which are added to the embeddings: each "
        "pair of a token and the token before it has the row of its hash; 0: no table",
        0,
    )
    # Olsson et al. 2022, "In-context Learning and Induction Heads".
    induction_heads: bool = option(
        "start all heads but one of the second block, if there is one, by copying the tokens that "
        "followed the current one before; requires previous_token_heads",
        False,
    )

    def __post_init__(self) -> None:
        """Check that a model can be built from the values."""
        super().__post_init__()
        if self.head_dim is None and self.d_model % self.num_heads != 0:
            raise InputError(
                f"must divide d_model ({self.d_model}), got {self.num_heads}", argument="num_heads"
            )
        if self.num_heads % self.kv_heads != 0:
            raise InputError(
                f"must divide num_heads ({self.num_heads}), got {self.kv_heads}",
                argument="num_kv_heads",
            )
        if self.rope_scaling is not None and not self.rope_scaling[1] < self.rope_scaling[2]:
            raise InputError(
                "must have a low frequency factor below the high frequency factor, got "
                f"{list(self.rope_scaling)}",
                argument="rope_scaling",
            )
        if self.position == "rope" and self.d_head % 2 != 0 and self.head_dim is not None:
            raise InputError(
                f"must be even, because RoPE rotates pairs of features, got {self.head_dim}",
                argument="head_dim",
            )
        if self.position == "rope" and self.d_head % 2 != 0:
            raise InputError(
                "must make d_model / num_heads even, because RoPE rotates pairs of features, got "
                f"{self.num_heads} ({self.d_model} / {self.num_heads} = {self.d_head})",
                argument="num_heads",
            )
        most = min(self.num_heads, self.context_length - 1) if self.position == "rope" else 0
        if self.previous_token_heads > most:
            raise InputError(
                f"must be at most {most}, for {self.num_heads} heads, context length "
                f"{self.context_length} and position {self.position!r}, got "
                f"{self.previous_token_heads}",
                argument="previous_token_heads",
                remedy=f"set it to {most}",
            )
        if self.induction_heads and self.previous_token_heads == 0:
            raise InputError(
                ("requires ", Argument("previous_token_heads")),
                argument="induction_heads",
                remedy="set it to false",
            )
        if self.induction_heads and self.d_head < 4:
            raise InputError(
                f"requires heads of at least 4 features, got {self.d_head}",
                argument="induction_heads",
                remedy="set it to false",
            )

    @property
    def d_head(self) -> int:
        """Number of features per attention head, d_k in Vaswani et al. 2017."""
        return self.d_model // self.num_heads if self.head_dim is None else self.head_dim

    @property
    def kv_heads(self) -> int:
        """Number of heads of keys and values."""
        return self.num_heads if self.num_kv_heads is None else self.num_kv_heads

    @property
    def embedding_factor(self) -> float:
        """Factor by which the embeddings are multiplied."""
        if self.embedding_scale is not None:
            return self.embedding_scale
        return math.sqrt(self.d_model) if self.tied_embeddings else 1.0

    def num_parameters(self) -> int:
        """Return the number of weights in the model, without building it."""
        return sum(self.parameters_by_part().values())

    def parameters_by_part(self) -> dict[Part, int]:
        """Return the number of weights by part, summed over all blocks.

        The parts are "embedding", "attention", "feed-forward", "norms" and "head". With tied
        embeddings, "head" is 0.
        """
        found = dict.fromkeys(PARTS, 0)
        for weight in weights(self):
            found[weight.part] += weight.copies * weight.size
        return found


_MOST_ANGLES = 1 << 24
"""Number of RoPE angles that is always allowed, even for a small file."""


def context_fits(config: ModelConfig, num_bytes: int) -> bool:
    """Return whether the context length is in proportion to the weights, which take `num_bytes`.

    The weights do not determine the context length, so a small file could ask for a huge table of
    RoPE angles. It may have as many angles as the weights have bytes.
    """
    return config.context_length * config.d_head <= max(num_bytes, _MOST_ANGLES)
