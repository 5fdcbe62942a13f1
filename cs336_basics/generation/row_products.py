"""One row times a matrix, the product that generating one text on a CPU spends its time in.

It reads every weight once, so it is as fast as memory is. PyTorch's product of one row uses one
thread; a dot product with each row of the matrix uses all of them (4.6 instead of 5.9 ms a token,
see benchmarks/NOTES.md).
"""

from __future__ import annotations

import copy
import itertools

import torch
from torch import Tensor

from cs336_basics.model.layers import Linear
from cs336_basics.model.transformer import TransformerLM


class RowLinear(Linear):
    """Linear with another product for a single row in float32."""

    def forward(self, x: Tensor) -> Tensor:
        """Map x: (..., in_features) to (..., out_features)."""
        if x.numel() != x.shape[-1] or x.dtype != torch.float32:
            return super().forward(x)
        row: Tensor = torch.linalg.vecdot(self.weight, x.reshape(-1))  # (out_features,)
        return row.reshape(*x.shape[:-1], -1)


def with_row_products(model: TransformerLM) -> TransformerLM:
    """Return a model with the same weights, in the same memory, and the faster product of a row.

    A model that is not on the CPU and in float32 is returned itself; a sharded one, too, whose
    class is another and whose modules cannot be copied.
    """
    weight = next(model.parameters())
    is_plain = type(model) is TransformerLM and weight.device.type == "cpu"
    if not is_plain or weight.dtype != torch.float32:
        return model
    shared = {id(tensor): tensor for tensor in itertools.chain(model.parameters(), model.buffers())}
    result = copy.deepcopy(model, shared)  # of modules, not of their tensors
    if result.lm_head is None:
        result.lm_head = Linear(1, 1)
        result.lm_head.weight = result.token_embeddings.weight
    for module in result.modules():
        if type(module) is Linear:
            module.__class__ = RowLinear
    return result
