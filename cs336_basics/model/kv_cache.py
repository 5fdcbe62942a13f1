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

from cs336_basics._support.arguments import checked_integer
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
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        shape = (batch_size, config.num_heads, config.context_length, config.d_head)
        # Zeros, not empty memory: a NaN in a masked slot would survive the weight of 0.
        self.layers = [
            LayerCache(
                torch.zeros(shape, device=device, dtype=dtype),
                torch.zeros(shape, device=device, dtype=dtype),
            )
            for _ in range(config.num_layers)
        ]
        self.config = config
        self.lengths = [0] * batch_size
        """How many tokens of each text are in the cache."""

    def check_is_of(self, config: ModelConfig) -> None:
        """Check that the cache has the shape that a model needs.

        Raises:
            ValueError: its layers, heads or features differ, or it holds longer texts.
        """
        names = ("num_layers", "num_heads", "d_head")
        if self.config is config:
            return
        for name in names:
            mine, needed = getattr(self.config, name), getattr(config, name)
            if mine != needed:
                raise ValueError(f"the cache is of a model with {name} {mine}, not {needed}")
        if self.config.context_length > config.context_length:
            raise ValueError(
                f"the cache holds texts of {self.config.context_length} tokens, the context length "
                f"of the model is {config.context_length}"
            )

    def positions_after(self, token_ids: Tensor) -> Tensor:
        """Return the positions of token_ids (batch, sequence), which continue the texts: its shape.

        Raises ValueError if the batch has another size or a text would exceed the cache.
        """
        if token_ids.ndim != 2 or len(token_ids) != len(self.lengths):
            raise ValueError(
                f"with a cache of {len(self.lengths)} texts, token ids must be "
                f"({len(self.lengths)}, sequence), not {tuple(token_ids.shape)}"
            )
        sequence, capacity = token_ids.shape[1], self.layers[0].keys.shape[2]
        longest = max(self.lengths)
        if longest + sequence > capacity:
            raise ValueError(
                f"the cache holds {longest} tokens of the longest text and {sequence} more would "
                f"exceed the context length, {capacity}: start again from the last tokens"
            )
        starts = torch.tensor(self.lengths, device=token_ids.device)[:, None]  # (batch, 1)
        return starts + torch.arange(sequence, device=token_ids.device)  # (batch, sequence)

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

        Raises ValueError unless there is a length for each text, none longer than what is stored,
        and TypeError for a length that is not an int.
        """
        lengths = [checked_integer("a length", length, -(2**63)) for length in lengths]
        if len(lengths) != len(self.lengths) or any(
            not 0 <= new <= old for new, old in zip(lengths, self.lengths, strict=True)
        ):
            raise ValueError(f"texts of {self.lengths} tokens cannot be cut to {list(lengths)}")
        self.lengths = lengths

    def select(self, rows: Sequence[int]) -> None:
        """Keep only these rows, in this order.

        Raises ValueError for no rows: a cache holds at least one text.
        """
        if not len(rows):
            raise ValueError("rows is empty: a cache holds at least one text")
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
