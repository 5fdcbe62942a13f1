"""The weights of a model: names, shapes and roles, without building it.

This is the only description of the architecture's shapes. Counts of parameters, FLOPs and
activations, parameter groups and the products that are timed all follow from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    from cs336_basics.model.config import ModelConfig

Role = Literal["embedding", "matrix", "bias", "gain", "head"]
"""What a weight does: a table of vectors, a matrix in a block, a vector that is added to its
product, a factor of each feature, or the matrix that computes logits. A table that is also the
head is an embedding."""

ROLES: tuple[Role, ...] = get_args(Role)

Part = Literal["embedding", "attention", "feed-forward", "norms", "head"]
"""A part of a model to which parameters count."""

PARTS: tuple[Part, ...] = get_args(Part)


class Weight(NamedTuple):
    """A weight of a model, or of each of its blocks.

    Attributes:
        name: Key in the state dict, with N for the number of the block.
        shape: Shape. A matrix maps from its last to its first dimension.
        role: See `Role`.
        part: Part of the model to which its parameters count.
        copies: Number of blocks that have such a weight; 1 for a weight outside the blocks.
        uses: Number of times that each copy is applied to a token. A lookup in a table is no use.
    """

    name: str
    shape: tuple[int, ...]
    role: Role
    part: Part
    copies: int = 1
    uses: int = 1

    @property
    def size(self) -> int:
        """Number of parameters in one copy."""
        return math.prod(self.shape)

    def names(self) -> Iterator[str]:
        """Yield the name of each copy."""
        if ".N." not in self.name:
            yield self.name
            return
        for number in range(self.copies):
            yield self.name.replace(".N.", f".{number}.")


def weights(config: ModelConfig) -> list[Weight]:
    """Return the weights of a TransformerLM. The length of the list does not depend on the size."""
    width, inner, layers = config.d_model, config.d_ff, config.num_layers
    table = (config.vocab_size, width)

    queries, keys = config.num_heads * config.d_head, config.kv_heads * config.d_head

    def in_blocks(name: str, shape: tuple[int, ...], part: Part, uses: int = 1) -> Weight:
        role: Role = "matrix" if len(shape) == 2 else "gain"
        return Weight(f"layers.N.{name}.weight", shape, role, part, layers, uses)

    found = [
        Weight(
            "token_embeddings.weight", table, "embedding", "embedding",
            uses=int(config.tied_embeddings),
        )
    ]  # fmt: skip
    if config.bigram_rows:
        rows = (config.bigram_rows, width)
        found += [
            Weight("bigram_embeddings.weight", rows, "embedding", "embedding", uses=0),
            Weight("bigram_embeddings.scale", (width,), "gain", "embedding", uses=0),
        ]
    for name, features in (("q", queries), ("k", keys), ("v", keys)):
        found.append(in_blocks(f"attn.{name}_proj", (features, width), "attention"))
        if config.qkv_bias:
            found.append(
                Weight(f"layers.N.attn.{name}_proj.bias", (features,), "bias", "attention", layers)
            )
    found.append(in_blocks("attn.output_proj", (width, queries), "attention"))
    if config.qk_norm:
        found += [
            in_blocks(f"attn.{name}_norm", (config.d_head,), "norms", uses=heads)
            for name, heads in (("q", config.num_heads), ("k", config.kv_heads))
        ]
    found += [
        in_blocks("ffn.w1", (inner, width), "feed-forward"),
        in_blocks("ffn.w2", (width, inner), "feed-forward"),
    ]
    if config.ffn == "swiglu":
        found.append(in_blocks("ffn.w3", (inner, width), "feed-forward"))
    if config.norm != "none":
        found += [in_blocks(name, (width,), "norms") for name in ("ln1", "ln2")]
    if config.norm == "pre":
        found.append(Weight("ln_final.weight", (width,), "gain", "norms"))
    if not config.tied_embeddings:
        found.append(Weight("lm_head.weight", table, "head", "head"))
    return found


def named_shapes(config: ModelConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the key in the state dict and the shape of each weight of a TransformerLM.

    They are not kept in memory, so the first wrong tensor of a file ends a check, even if the
    configuration has a billion blocks.
    """
    for weight in weights(config):
        for name in weight.names():
            yield name, weight.shape


def products(config: ModelConfig) -> list[Weight]:
    """Return the weights that multiply each token's features: matrices and the head."""
    return [weight for weight in weights(config) if len(weight.shape) == 2 and weight.uses]
