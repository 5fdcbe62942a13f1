"""The cost of a model by part: weights, FLOPs, and activations kept for the backward pass.

These counts come from formulas. `training/memory.py` runs the real code on tensors without data and
includes the memory that the formulas leave out.
"""

from __future__ import annotations

from typing import NamedTuple

from cs336_basics.model.config import ModelConfig
from cs336_basics.model.shapes import Part, products, weights

_PRODUCTS: dict[Part, str] = {
    "attention": "attention projections",  # all weights of attention are projections
    "feed-forward": "feed-forward",
    "norms": "norms",
    "embedding": "head",  # a tied table; a lookup is no use
    "head": "head",
}
"""The part of a forward pass that uses the weights of a part of the model."""


class Accounting(NamedTuple):
    """The cost of a model by part. A notebook shows it as a table.

    Attributes:
        parameters: Number of weights; see `ModelConfig.parameters_by_part`.
        flops: FLOPs of a forward pass over a full-length sequence; see `forward_flops`.
        activations: Number of values kept for the backward pass; see `kept_activations`.
    """

    parameters: dict[Part, int]
    flops: dict[str, int]
    activations: dict[str, int]

    def _repr_html_(self) -> str:
        from cs336_basics._support.html_table import html_table

        parameters = {
            "embedding" if part == "embedding" else _PRODUCTS[part]: number
            for part, number in self.parameters.items()
        }
        columns = (parameters, self.flops, self.activations)
        rows = [
            (part, [column.get(part, 0) for column in columns])
            for part in dict.fromkeys(part for column in columns for part in column)
        ]
        rows.append(("total", [sum(column.values()) for column in columns]))
        header = ("part", "weights", "FLOPs", "activations")
        return html_table("Weights, and the cost of one full-length sequence", header, rows)


def accounting(config: ModelConfig) -> Accounting:
    """Return the weights, FLOPs and activations of a model by part, without building it."""
    return Accounting(config.parameters_by_part(), forward_flops(config), kept_activations(config))


def forward_flops(config: ModelConfig) -> dict[str, int]:
    """Return the FLOPs of a forward pass over a full-length sequence, by part.

    Only matrix products are counted: multiplying (m, k) by (k, n) takes 2 m k n FLOPs. Scores are
    counted for all pairs of positions, masked or not. The embedding is a lookup and counts as zero.

    Returns:
        FLOPs under "attention projections" (queries, keys, values and output), "attention scores"
        (queries times keys, and scores times values), "feed-forward" and "head".
    """
    tokens = config.context_length
    flops = {
        "attention projections": 0,
        "attention scores": 4 * config.num_layers * tokens**2 * config.num_heads * config.d_head,
        "feed-forward": 0,
        "head": 0,
    }
    for weight in products(config):
        flops[_PRODUCTS[weight.part]] += 2 * tokens * weight.copies * weight.uses * weight.size
    return flops


def kept_activations(config: ModelConfig) -> dict[str, int]:
    """Return the number of values kept for the backward pass over a full-length sequence, by part.

    The count covers the results of the operations that CS336 counts: RMSNorm, projections, scores,
    softmax, the weighted sum of the values, products and SiLU in the feed-forward network, final
    norm, logits, and the cross-entropy of each logit. It leaves out residual sums, rotations and
    everything that depends on the implementation.

    Returns:
        Counts under "norms", "attention projections" (including the weighted sum),
        "attention scores" (including the softmax), "feed-forward" and "head" (including the
        cross-entropy).
    """
    tokens, layers = config.context_length, config.num_layers
    # SiLU(W1 x), and with the gate SiLU(W1 x) * W3 x.
    inner = 2 if config.ffn == "swiglu" else 1
    kept = {
        "norms": 0,
        # Weighted sums of the values.
        "attention projections": layers * tokens * config.num_heads * config.d_head,
        "attention scores": layers * 2 * config.num_heads * tokens**2,
        "feed-forward": layers * tokens * inner * config.d_ff,
        "head": tokens * config.vocab_size,  # the cross-entropy
    }
    for weight in weights(config):  # the result of each has as many features as its first dimension
        if weight.role == "bias":  # part of the result of its matrix
            continue
        kept[_PRODUCTS[weight.part]] += tokens * weight.copies * weight.uses * weight.shape[0]
    return kept
