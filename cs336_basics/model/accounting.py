"""What a model costs, counted: FLOPs of a forward pass and values that training keeps, by part.

The counts follow from the shapes alone. `training/memory.py` runs the real code instead, on tensors
without data, and so finds what is counted here and everything else.
"""

from __future__ import annotations

from cs336_basics.model.config import ModelConfig


def forward_flops(config: ModelConfig) -> dict[str, int]:
    """Return the FLOPs of a forward pass over one sequence of the context length, by part.

    Only matrix products count: a product of (m, k) and (k, n) is 2 m k n FLOPs. The scores of all
    pairs of positions count, masked or not. The embedding is a lookup, without a product.

    Returns:
        "attention projections" (queries, keys, values and output), "attention scores" (queries
        times keys, and scores times values), "feed-forward" and "head", in FLOPs.
    """
    tokens = config.context_length
    parameters = config.parameters_by_part()
    return {
        "attention projections": 2 * tokens * parameters["attention"],
        "attention scores": 4 * config.num_layers * tokens**2 * config.d_model,
        "feed-forward": 2 * tokens * parameters["feed-forward"],
        "head": 2 * tokens * config.vocab_size * config.d_model,
    }


def kept_activations(config: ModelConfig) -> dict[str, int]:
    """Return how many values one sequence of the context length leaves for the backward pass.

    These are the results of the operations that CS336 counts: RMSNorm, projections, scores,
    softmax, the weighted sum of the values, products and SiLU of the feed-forward network, final
    norm, logits, and the cross-entropy of each logit. Residual sums, rotations, and what an
    implementation saves or keeps besides are not included.

    Returns:
        "norms", "attention projections" (with the weighted sum), "attention scores" (with their
        softmax), "feed-forward", "head" (with the cross-entropy): numbers of values.
    """
    tokens, width, layers = config.context_length, config.d_model, config.num_layers
    # W1 x and SiLU; with the gate also W3 x and the product; then W2.
    inner = 4 if config.ffn == "swiglu" else 2
    norms = {"pre": 2 * layers + 1, "post": 2 * layers, "none": 0}[config.norm]
    return {
        "norms": norms * tokens * width,
        "attention projections": layers * tokens * 5 * width,
        "attention scores": layers * 2 * config.num_heads * tokens**2,
        "feed-forward": layers * tokens * (inner * config.d_ff + width),
        "head": 2 * tokens * config.vocab_size,
    }
