"""AdamW."""

from __future__ import annotations

import math
from collections.abc import Set
from typing import Any

import torch
from torch import Tensor

from cs336_basics.training.optimizers.group_optimizer import GroupOptimizer, Parameters, States


class AdamW(GroupOptimizer):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2).

    With gradient g at step t = 1, 2, ...:

        p <- p - lr * weight_decay * p
        m <- beta1 * m + (1 - beta1) * g
        v <- beta2 * v + (1 - beta2) * g^2
        p <- p - lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)

    This equals `torch.optim.AdamW`. The state of a parameter consists of the int `step` and the
    tensors `exp_avg` (m) and `exp_avg_sq` (v), which have the parameter's shape, dtype and device.

    Args:
        params: Parameters or parameter groups, as for any optimizer of torch.
        lr: Learning rate.
        betas: beta1 and beta2.
        eps: Added to the root in the divisor.
        weight_decay: Share of a parameter that a step of learning rate 1 subtracts.

    Raises:
        ValueError: If a setting, including one of a parameter group, is out of range.

    Example:
        >>> import torch
        >>> from cs336_basics.training import AdamW
        >>> weight = torch.nn.Parameter(torch.ones(2))
        >>> optimizer = AdamW([weight], lr=1e-3)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> bool((weight < 1).all())
        True
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        settings = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, update_adamw, settings)

    def state_keys(self, group: dict[str, Any]) -> Set[str]:
        """Return the keys in the state of an updated parameter."""
        return ADAMW_STATE


ADAMW_STATE = frozenset({"step", "exp_avg", "exp_avg_sq"})
"""The keys in the state of a parameter that `update_adamw` has updated."""


def update_adamw(parameters: list[Tensor], states: States, group: dict[str, Any]) -> None:
    """Update parameters in place; see `AdamW`."""
    for parameter in parameters:
        assert parameter.grad is not None
        _update(parameter, parameter.grad, states[parameter], group)


def _update(
    parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
) -> None:
    """Update one parameter in place, using one temporary tensor of its size."""
    if not state:
        state["step"] = 0
        state["exp_avg"] = torch.zeros_like(parameter)
        state["exp_avg_sq"] = torch.zeros_like(parameter)
    state["step"] += 1
    step, exp_avg, exp_avg_sq = state["step"], state["exp_avg"], state["exp_avg_sq"]
    lr, (beta1, beta2) = group["lr"], group["betas"]

    # The decay is "decoupled": it changes the parameter but not the moments.
    parameter.mul_(1 - lr * group["weight_decay"])
    exp_avg.lerp_(gradient, 1 - beta1)
    exp_avg_sq.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    # Both averages start at zero, which makes them too small by exactly these factors.
    correction1 = 1 - beta1**step
    correction2 = 1 - beta2**step
    denominator = exp_avg_sq.sqrt().div_(math.sqrt(correction2)).add_(group["eps"])
    parameter.addcdiv_(exp_avg, denominator, value=-lr / correction1)
