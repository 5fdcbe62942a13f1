"""Weights in fewer bits, so that less memory is read for each generated token.

A token multiplies every matrix with a single vector, so a CPU spends most of the time on reading
weights. Embeddings, norms and biases stay as they are, because a token reads few of them.
"""

from __future__ import annotations

import copy
import itertools
from typing import Literal, get_args

import torch
from torch import Tensor

from cs336_basics._support.arguments import check_choice
from cs336_basics.model.layers import Linear
from cs336_basics.model.transformer import TransformerLM

Precision = Literal["auto", "float32", "bfloat16", "int8"]

_LARGEST = 127  # int8 also has -128, which has no positive counterpart


def check_precision(precision: str) -> None:
    """Check the name of a precision.

    Raises:
        ValueError: If there is no such precision.
    """
    check_choice("precision", precision, get_args(Precision))


def rounded(weight: Tensor, precision: Precision) -> Tensor:
    """Return a matrix whose numbers are rounded to a precision, in the same dtype.

    With "bfloat16", each number becomes the nearest bfloat16, with a relative error of at most
    2^-8. With "int8", each row has a scale s, the largest magnitude in the row divided by 127, and
    each number becomes s times an integer in -127 .. 127, with an error of at most s / 2. "float32"
    rounds nothing.
    """
    if precision == "bfloat16":
        return weight.to(torch.bfloat16).to(weight.dtype)
    if precision == "int8":
        scale = weight.abs().amax(dim=1, keepdim=True) / _LARGEST
        integers = (weight / scale).clamp(-_LARGEST, _LARGEST).round()
        return torch.where(scale > 0, integers * scale, scale)  # a row of zeros has the scale 0
    return weight


def with_rounded_matrices(model: TransformerLM, precision: Precision) -> TransformerLM:
    """Return a copy of the model with rounded matrices, which shares the other weights.

    This is the readable form of what the compiled code computes. It runs on every device, at the
    speed of the model itself. With "float32", it is the model.
    """
    if precision == "float32":
        return model
    shared = {id(tensor): tensor for tensor in itertools.chain(model.parameters(), model.buffers())}
    result = copy.deepcopy(model, shared)  # copies the modules but not their tensors
    if result.lm_head is None:  # the head is rounded, but not the embedding table
        result.lm_head = Linear(1, 1, device="meta")  # draws no random numbers
        result.lm_head.weight = result.token_embeddings.weight
    with torch.no_grad():
        for module in result.modules():
            if isinstance(module, Linear):
                module.weight = torch.nn.Parameter(rounded(module.weight, precision))
    return result
