"""Faster products of a single row and a matrix, the main cost of generating one text on a CPU.

The product reads each weight once, so memory bandwidth limits its speed. On many CPUs, PyTorch
multiplies a single row in one thread. Dot products with the rows of the matrix are faster there,
because they use all threads. On other CPUs, PyTorch's product is three times as fast as dot
products (benchmarks/NOTES.md). Both are therefore timed once.
"""

from __future__ import annotations

import copy
import functools
import itertools
import timeit

import torch
from torch import Tensor

from cs336_basics.model.layers import Linear
from cs336_basics.model.transformer import TransformerLM

_SHAPE = (8192, 2048)  # 64 MB, more than most caches
_ROUNDS = 5
_GAIN = 1.1  # a smaller gain could be noise, and the two products round differently


class RowLinear(Linear):
    """A Linear that multiplies a single float32 row with all threads."""

    def forward(self, x: Tensor) -> Tensor:
        """Map x from (..., in_features) to (..., out_features)."""
        if x.numel() != x.shape[-1] or x.dtype != torch.float32:
            return super().forward(x)
        row: Tensor = torch.linalg.vecdot(self.weight, x.reshape(-1))  # (out_features,)
        return self.with_bias(row).reshape(*x.shape[:-1], -1)


def with_row_products(model: TransformerLM) -> TransformerLM:
    """Return a copy of the model that shares its weights and uses `RowLinear`.

    A model that is sharded, not on the CPU or not in float32 is returned unchanged, as is every
    model on a machine where PyTorch's product of a single row is faster.
    """
    weight = next(model.parameters())
    # Sharding changes the model's class, and the modules of a sharded model cannot be copied.
    is_plain = type(model) is TransformerLM and weight.device.type == "cpu"
    if not is_plain or weight.dtype != torch.float32:
        return model
    if not dot_products_are_faster(torch.get_num_threads()):
        return model
    shared = {id(tensor): tensor for tensor in itertools.chain(model.parameters(), model.buffers())}
    result = copy.deepcopy(model, shared)  # copies the modules but not their tensors
    if result.lm_head is None:
        result.lm_head = Linear(1, 1, device="meta")  # draws no random numbers
        result.lm_head.weight = result.token_embeddings.weight
    for module in result.modules():
        if isinstance(module, Linear):  # including the subclass that training uses for oneDNN
            module.__class__ = RowLinear
    return result


@functools.cache
def dot_products_are_faster(num_threads: int) -> bool:
    """Return whether dot products multiply a single row faster than PyTorch's product does.

    The first call takes about 0.1 s; the result is cached for each number of threads.
    """
    weight, row = torch.ones(_SHAPE), torch.ones(_SHAPE[1])
    dots: list[float] = []
    products: list[float] = []
    for _ in range(_ROUNDS):
        dots.append(timeit.timeit(lambda: torch.linalg.vecdot(weight, row), number=1))
        products.append(timeit.timeit(lambda: row @ weight.T, number=1))
    return _GAIN * min(dots) < min(products)
