"""The key-value cache: the keys and values of earlier tokens, so that a new token costs one row.

Without it, generating token n + 1 computes the keys and values of all n tokens again, although they
have not changed: the causal mask prevents a token from attending to later ones. (Pope et al. 2022,
"Efficiently Scaling Transformer Inference", section 2.1.)

The cache is passed to the model in every call, `model(token_ids, cache)`, and grows by the tokens
of that call. The modules store nothing of it, so one model can serve several texts alternately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cs336_basics.model.config import ModelConfig


@dataclass
class LayerCache:
    """Keys and values of one attention layer, each (batch, heads, slots, d_head)."""

    keys: Tensor
    values: Tensor

    def store(self, keys: Tensor, values: Tensor, positions: Tensor) -> None:
        """Put keys and values, (batch, heads, sequence, d_head), at positions (batch, sequence)."""
        rows = torch.arange(len(positions), device=positions.device)[:, None]  # (batch, 1)
        # Indices on both sides of a slice come first: (batch, sequence, heads, d_head).
        self.keys[rows, :, positions] = keys.transpose(1, 2).to(self.keys.dtype)
        self.values[rows, :, positions] = values.transpose(1, 2).to(self.values.dtype)


class KVCache:
    """Keys and values of the tokens that a model has seen: a batch of texts of any lengths.

    Token i of a text lies in slot i of its row; slots from `lengths[row]` on are not in
    use. They need no extra mask: a query at position p attends to the slots 0 .. p, and
    slot p is written before position p is computed. So texts of different lengths are padded *at
    their end* to a rectangle, and `truncate` removes the padding.

    Use it under `torch.no_grad()`: with gradients it would keep the graph of everything it stores.

    Memory: 2 * num_layers * batch_size * context_length * d_model numbers, allocated at once.

    Args:
        config: the model's.
        batch_size: how many texts.
        device, dtype: those of the model's weights; None is torch's default.
    """

    def __init__(
        self,
        config: ModelConfig,
        batch_size: int = 1,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        shape = (batch_size, config.num_heads, config.context_length, config.d_head)
        # Zeros, not empty memory: a NaN in a masked slot would survive the weight of 0.
        self.layers = [
            LayerCache(
                torch.zeros(shape, device=device, dtype=dtype),
                torch.zeros(shape, device=device, dtype=dtype),
            )
            for _ in range(config.num_layers)
        ]
        self.lengths = [0] * batch_size
        """How many tokens of each text are in the cache."""

    def positions_after(self, sequence: int, device: torch.device) -> Tensor:
        """Return the positions (batch, sequence) of tokens that continue the texts."""
        starts = torch.tensor(self.lengths, device=device)[:, None]  # (batch, 1)
        return starts + torch.arange(sequence, device=device)  # (batch, sequence)

    def visible(self, sequence: int) -> list[LayerCache]:
        """Return views of the slots that the next `sequence` tokens need, for each layer."""
        slots = max(self.lengths) + sequence
        return [
            LayerCache(layer.keys[:, :, :slots], layer.values[:, :, :slots])
            for layer in self.layers
        ]

    def advance(self, sequence: int) -> None:
        """Count `sequence` more tokens of every text as stored; the model calls this."""
        self.lengths = [length + sequence for length in self.lengths]

    def truncate(self, lengths: Sequence[int]) -> None:
        """Keep only the first lengths[row] tokens of each text.

        Raises ValueError unless there is a length for each text, none longer than what is stored.
        """
        if not all(0 <= new <= old for new, old in zip(lengths, self.lengths, strict=True)):
            raise ValueError(f"texts of {self.lengths} tokens cannot be cut to {list(lengths)}")
        self.lengths = list(lengths)

    def select(self, rows: Sequence[int]) -> None:
        """Keep only these rows, at least one, in this order."""
        index = torch.tensor(rows, device=self.layers[0].keys.device)
        for layer in self.layers:
            layer.keys, layer.values = layer.keys[index], layer.values[index]
        self.lengths = [self.lengths[row] for row in rows]

    def replace(self, rows: Sequence[int], other: KVCache) -> None:
        """Replace these rows by the texts of another cache, in order."""
        index = torch.tensor(rows, device=self.layers[0].keys.device)
        for mine, theirs in zip(self.layers, other.layers, strict=True):
            mine.keys[index], mine.values[index] = theirs.keys, theirs.values
        for row, length in zip(rows, other.lengths, strict=True):
            self.lengths[row] = length
