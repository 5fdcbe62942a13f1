"""Gradient clipping by the global norm.

`clip_gradients` is the readable implementation, and the faster one on a CPU.
`clip_gradients_foreach` is for GPUs and for gradients sharded over processes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from cs336_basics._support.errors import InputError
from cs336_basics.model.layers import at_least_float32


@torch.no_grad()
def clip_gradients(parameters: Iterable[Tensor], max_l2_norm: float, eps: float = 1e-6) -> float:
    """Scale all gradients in place so that their joint L2 norm is at most `max_l2_norm`.

    The joint norm treats all gradients as one long vector (Pascanu et al. 2013), so the direction
    of the step does not change. If the norm exceeds the bound, each gradient is multiplied by
    max_l2_norm / (norm + eps). If the norm is infinite or NaN, the gradients stay unchanged, so
    check the norm before the optimizer's step.

    Args:
        parameters: One tensor or several. Tensors without a gradient are skipped.
        max_l2_norm: Maximum norm, positive. Pass infinity to measure the norm without clipping.
        eps: Added to the norm in the divisor.

    Returns:
        The norm before clipping, computed in float32 or float64; 0 if there are no gradients.

    Raises:
        ValueError: If `max_l2_norm` is not positive.

    Example:
        >>> import torch
        >>> from cs336_basics.training import clip_gradients
        >>> weight = torch.nn.Parameter(torch.zeros(2))
        >>> (weight * torch.tensor([3.0, 4.0])).sum().backward()
        >>> clip_gradients([weight], max_l2_norm=1.0)
        5.0
        >>> round(float(weight.grad.norm()), 4)
        1.0
    """
    if not max_l2_norm > 0:
        raise InputError(f"must be positive, got {max_l2_norm}", argument="max_l2_norm")
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return 0.0

    device = gradients[0].device
    vectors = [at_least_float32(gradient).flatten() for gradient in gradients]
    # On a CPU, a dot product is faster and more precise than torch.linalg.vector_norm.
    squares = [torch.dot(vector, vector).to(device) for vector in vectors]
    norm = math.sqrt(torch.stack(squares).sum())  # the only line that waits for a GPU
    if math.isfinite(norm) and norm > max_l2_norm:
        for gradient in gradients:
            gradient.mul_(max_l2_norm / (norm + eps))
    return norm


@torch.no_grad()
def clip_gradients_foreach(parameters: Iterable[Tensor], max_l2_norm: float) -> Tensor:
    """Clip gradients with PyTorch's own function, which does not make the host wait for a GPU.

    The gradients may be sharded over processes (FSDP); the norm covers all shards. If the norm is
    infinite or NaN, the gradients become 0 or NaN, so check the norm before you save the weights.

    Args:
        parameters: Tensors. Tensors without a gradient are skipped.
        max_l2_norm: Maximum norm, positive.

    Returns:
        The norm before clipping, as a scalar tensor on the gradients' device.
    """
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_l2_norm)
    full: Tensor = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
    return full
