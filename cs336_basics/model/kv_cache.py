"""The key-value cache, which stores keys and values of earlier tokens for generation.

Without a cache, generating token n + 1 recomputes the keys and values of the n earlier tokens. They
have not changed, because the causal mask prevents a token from attending to later ones (Pope et al.
2022, "Efficiently Scaling Transformer Inference", section 2.1).

Pass the cache to the model in every call, `model(token_ids, cache)`. The call adds its tokens to
the cache. The model itself stores nothing, so it can alternate between several caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cs336_basics._support.errors import InputError
from cs336_basics.model.bigrams import NO_TOKEN
from cs336_basics.model.config import ModelConfig


@dataclass
class LayerCache:
    """Keys and values of one attention layer, each (batch, heads, slots, d_head).

    The heads are key-value heads. There may be fewer of them than query heads.
    """

    keys: Tensor
    values: Tensor

    def store(self, keys: Tensor, values: Tensor, positions: Tensor) -> None:
        """Store keys and values (batch, heads, sequence, d_head) at positions (batch, sequence)."""
        rows = torch.arange(len(positions), device=positions.device)[:, None]  # (batch, 1)
        # If a slice separates two index tensors, their dimensions come first in the result, so its
        # shape is (batch, sequence, heads, d_head).
        self.keys[rows, :, positions] = keys.transpose(1, 2).to(self.keys.dtype)
        self.values[rows, :, positions] = values.transpose(1, 2).to(self.values.dtype)


class KVCache:
    """Keys and values of the tokens that a model has seen, for a batch of texts of any length.

    Token i of a text occupies slot i of its row. Slots from `lengths[row]` on are unused. They need
    no extra mask: a query at position p attends to slots 0 .. p, and slot p is written before the
    query attends. Pad texts of different lengths to the same length *at the end*; `truncate`
    removes the padding from the cache.

    Use the cache under `torch.no_grad()`. Otherwise, it keeps the autograd graph of everything that
    it stores.

    A new cache allocates memory for all 2 * num_layers * batch_size * context_length * kv_heads *
    d_head numbers.

    Args:
        config: Configuration of the model.
        batch_size: Number of texts.
        device: The model's device. Defaults to torch's default device.
        dtype: Dtype of the model's weights. Defaults to torch's default dtype.
    """

    def __init__(
        self,
        config: ModelConfig,
        batch_size: int = 1,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        shape = (batch_size, config.kv_heads, config.context_length, config.d_head)
        # Uninitialized memory could contain NaN, and 0 * NaN is NaN even in a masked slot.
        self.layers = [
            LayerCache(
                torch.zeros(shape, device=device, dtype=dtype),
                torch.zeros(shape, device=device, dtype=dtype),
            )
            for _ in range(config.num_layers)
        ]
        num_ids = config.context_length if config.bigram_rows else 0
        self.token_ids = torch.zeros((batch_size, num_ids), dtype=torch.int64, device=device)
        """Ids of the cached tokens of a model with `bigram_rows`, (batch_size, context_length). For
        other models, which do not need them, (batch_size, 0)."""
        self.lengths = [0] * batch_size
        """Number of cached tokens in each text."""

    def store_ids(self, token_ids: Tensor) -> Tensor:
        """Store the ids (batch, sequence) of the next tokens, and return the ids before them.

        Returns:
            The id of the token before each text's next tokens, or NO_TOKEN, shape (batch, 1).
        """
        rows = torch.arange(len(token_ids), device=token_ids.device)[:, None]  # (batch, 1)
        positions = self.positions_after(token_ids.shape[-1], token_ids.device)
        self.token_ids[rows, positions] = token_ids.long()
        starts = positions[:, :1]  # (batch, 1)
        before = self.token_ids.gather(1, (starts - 1).clamp(min=0))
        return before.masked_fill(starts == 0, NO_TOKEN).to(token_ids.dtype)

    def positions_after(self, sequence: int, device: torch.device) -> Tensor:
        """Return the positions (batch, sequence) of the next `sequence` tokens of each text."""
        starts = torch.tensor(self.lengths, device=device)[:, None]  # (batch, 1)
        return starts + torch.arange(sequence, device=device)  # (batch, sequence)

    def visible(self, sequence: int) -> list[LayerCache]:
        """Return views, one per layer, of the slots in use after `sequence` more tokens."""
        slots = max(self.lengths) + sequence
        return [
            LayerCache(layer.keys[:, :, :slots], layer.values[:, :, :slots])
            for layer in self.layers
        ]

    def advance(self, sequence: int) -> None:
        """Record that the model has stored `sequence` more tokens of each text."""
        self.lengths = [length + sequence for length in self.lengths]

    def truncate(self, lengths: Sequence[int]) -> None:
        """Keep only the first lengths[row] tokens of each text.

        Raises:
            ValueError: If there is not exactly one length per text, or a length is negative or
                exceeds the current length.
        """
        if len(lengths) != len(self.lengths):
            raise InputError(
                f"must have length {len(self.lengths)}, one per text, got {len(lengths)}",
                argument="lengths",
            )
        if not all(0 <= new <= old for new, old in zip(lengths, self.lengths, strict=True)):
            raise InputError(
                f"must be between 0 and the current lengths {self.lengths}, got {list(lengths)}",
                argument="lengths",
            )
        self.lengths = list(lengths)

    def select(self, rows: Sequence[int]) -> None:
        """Keep only the given rows, at least one, in the given order."""
        index = torch.tensor(rows, device=self.layers[0].keys.device)
        for layer in self.layers:
            layer.keys, layer.values = layer.keys[index], layer.values[index]
        self.token_ids = self.token_ids[index]
        self.lengths = [self.lengths[row] for row in rows]

    def replace(self, rows: Sequence[int], other: KVCache) -> None:
        """Replace the given rows with the rows of another cache, in order."""
        index = torch.tensor(rows, device=self.layers[0].keys.device)
        for mine, theirs in zip(self.layers, other.layers, strict=True):
            mine.keys[index], mine.values[index] = theirs.keys, theirs.values
        self.token_ids[index] = other.token_ids
        for row, length in zip(rows, other.lengths, strict=True):
            self.lengths[row] = length
