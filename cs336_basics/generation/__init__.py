"""Text generation: sampling, the generation loop with a key-value cache, and streaming."""

from cs336_basics.generation.generate import generate, generate_batch
from cs336_basics.generation.sampling import Sampling
from cs336_basics.generation.streaming import generate_text, stop_at, stream_text

__all__ = [
    "Sampling",
    "generate",
    "generate_batch",
    "generate_text",
    "stop_at",
    "stream_text",
]
