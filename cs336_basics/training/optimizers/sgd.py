"""Stochastic gradient descent: CS336's version, and the version with momentum."""

from __future__ import annotations

import math
from collections.abc import Set
from typing import Any

import torch
from torch import Tensor

from cs336_basics.training.optimizers.group_optimizer import GroupOptimizer, Parameters, States


class SGD(GroupOptimizer):
    """Gradient descent with a decaying learning rate.

    Step t = 0, 1, ... computes p <- p - lr / sqrt(t + 1) * grad. The state of a parameter is
    `step`, the number of steps taken.

    Args:
        params: Parameters or parameter groups, as for any optimizer of torch.
        lr: Learning rate.

    Raises:
        ValueError: If lr is negative or not finite.

    Example:
        >>> import torch
        >>> from cs336_basics.training import SGD
        >>> weight = torch.nn.Parameter(torch.ones(2))
        >>> optimizer = SGD([weight], lr=0.1)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> bool((weight < 1).all())
        True
    """

    def __init__(self, params: Parameters, lr: float = 1e-3) -> None:
        super().__init__(params, update_sgd, {"lr": lr})

    def state_keys(self, group: dict[str, Any]) -> Set[str]:
        """Return the keys in the state of an updated parameter."""
        return {"step"}


class MomentumSGD(GroupOptimizer):
    """Gradient descent with momentum (Sutskever et al. 2013) and an L2 penalty.

    Unlike `SGD`, it does not decay the learning rate; use a schedule for that. With gradient g:

        g <- g + weight_decay * p
        m <- momentum * m + g
        p <- p - lr * m                         (nesterov: p <- p - lr * (g + momentum * m))

    This equals `torch.optim.SGD`. The weight decay is not decoupled, so it enters the momentum. The
    state of a parameter is `momentum_buffer` (m), a tensor like the parameter. Without momentum,
    the state is empty.

    Args:
        params: Parameters or parameter groups, as for any optimizer of torch.
        lr: Learning rate.
        momentum: Factor of the previous steps.
        weight_decay: Factor of the L2 penalty.
        nesterov: Whether to look one step ahead.

    Raises:
        ValueError: If a setting, including one of a parameter group, is out of range.

    Example:
        >>> import torch
        >>> from cs336_basics.training import MomentumSGD
        >>> weight = torch.nn.Parameter(torch.ones(2))
        >>> optimizer = MomentumSGD([weight], lr=0.1, momentum=0.9)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> bool((weight < 1).all())
        True
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        super().__init__(params, update_momentum_sgd, {**defaults, "nesterov": nesterov})

    def state_keys(self, group: dict[str, Any]) -> Set[str]:
        """Return the keys in the state of an updated parameter."""
        return {"momentum_buffer"}


def update_sgd(parameters: list[Tensor], states: States, group: dict[str, Any]) -> None:
    """Update parameters in place; see `SGD`."""
    for parameter in parameters:
        assert parameter.grad is not None
        state = states[parameter]
        step = state.get("step", 0)
        parameter.add_(parameter.grad, alpha=-group["lr"] / math.sqrt(step + 1))
        state["step"] = step + 1


def update_momentum_sgd(parameters: list[Tensor], states: States, group: dict[str, Any]) -> None:
    """Update parameters in place; see `MomentumSGD`."""
    momentum = group["momentum"]
    for parameter in parameters:
        direction = parameter.grad
        assert direction is not None
        if group["weight_decay"]:
            direction = direction.add(parameter, alpha=group["weight_decay"])
        if momentum:
            state = states[parameter]
            if not state:
                state["momentum_buffer"] = torch.zeros_like(parameter)
            average = state["momentum_buffer"].mul_(momentum).add_(direction)
            ahead = group["nesterov"]
            direction = direction.add(average, alpha=momentum) if ahead else average
        parameter.add_(direction, alpha=-group["lr"])
