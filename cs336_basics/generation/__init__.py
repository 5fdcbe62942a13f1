"""Text from a model: sampling, generation with a key-value cache, streaming of text."""

from cs336_basics.generation.generate import (
    Sampling,
    generate,
    generate_batch,
    keep_likely,
    keep_nucleus,
    keep_top_k,
    next_window,
    penalize_repetition,
    sample_token,
    stop_at,
    stream_text,
)

__all__ = [
    "Sampling",
    "generate",
    "generate_batch",
    "keep_likely",
    "keep_nucleus",
    "keep_top_k",
    "next_window",
    "penalize_repetition",
    "sample_token",
    "stop_at",
    "stream_text",
]
