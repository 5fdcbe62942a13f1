"""Faster products of a single row and a matrix, the main cost of generating one text on a CPU.

The product reads each weight once, so memory bandwidth limits its speed. PyTorch multiplies a
single row in one thread. Dot products with the rows of the matrix use all threads and take 4.6
instead of 5.9 ms per token (benchmarks/NOTES.md).
"""

from __future__ import annotations

import copy
import itertools

import torch
from torch import Tensor

from cs336_basics.model.layers import Linear
from cs336_basics.model.transformer import TransformerLM


class RowLinear(Linear):
    """A Linear that multiplies a single float32 row with all threads."""

    def forward(self, x: Tensor) -> Tensor:
        """Map x from (..., in_features) to (..., out_features)."""
        if x.numel() != x.shape[-1] or x.dtype != torch.float32:
            return super().forward(x)
        row: Tensor = torch.linalg.vecdot(self.weight, x.reshape(-1))  # (out_features,)
        return row.reshape(*x.shape[:-1], -1)


def with_row_products(model: TransformerLM) -> TransformerLM:
    """Return a copy of the model that shares its weights and uses `RowLinear`.

    A model that is sharded, not on the CPU or not in float32 is returned unchanged.
    """
    weight = next(model.parameters())
    # Sharding changes the model's class, and the modules of a sharded model cannot be copied.
    is_plain = type(model) is TransformerLM and weight.device.type == "cpu"
    if not is_plain or weight.dtype != torch.float32:
        return model
    shared = {id(tensor): tensor for tensor in itertools.chain(model.parameters(), model.buffers())}
    result = copy.deepcopy(model, shared)  # copies the modules but not their tensors
    if result.lm_head is None:
        result.lm_head = Linear(1, 1)
        result.lm_head.weight = result.token_embeddings.weight
    for module in result.modules():
        if isinstance(module, Linear):  # including the subclass that training uses for oneDNN
            module.__class__ = RowLinear
    return result
