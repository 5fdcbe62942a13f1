"""Optimizers: plain SGD with a decaying step, and AdamW."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor
from torch.optim import Optimizer

Parameters = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
"""What to optimize: tensors, or groups `{"params": tensors, "lr": ..., ...}`, or named tensors."""


class SGD(Optimizer):
    """Gradient descent whose step shrinks: at step t = 0, 1, ... p <- p - lr / sqrt(t + 1) * grad.

    State per parameter: `step`, the number of steps taken.

    Raises ValueError where lr is negative or not finite.
    """

    def __init__(self, params: Parameters, lr: float = 1e-3) -> None:
        super().__init__(params, {"lr": lr})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with settings of their own; the constructor comes through here too."""
        _check_at_least_zero("lr", {**self.defaults, **param_group}["lr"])
        super().add_param_group(param_group)

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update every parameter that has a gradient; return the loss of `closure`, if given."""
        loss = _evaluate(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                step = state.get("step", 0)
                parameter.add_(parameter.grad, alpha=-group["lr"] / math.sqrt(step + 1))
                state["step"] = step + 1
        return loss


class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2).

    With gradient g at step t = 1, 2, ...:

        p <- p - lr * weight_decay * p
        m <- beta1 * m + (1 - beta1) * g
        v <- beta2 * v + (1 - beta2) * g^2
        p <- p - lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)

    as `torch.optim.AdamW` computes it. State per parameter: `step`, an int; `exp_avg` (m) and
    `exp_avg_sq` (v), tensors like the parameter, in its dtype and on its device.

    Raises ValueError for a setting out of range, in a parameter group too; `step` raises
    RuntimeError for a sparse gradient.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with settings of their own; the constructor comes through here too."""
        group = {**self.defaults, **param_group}
        for name in ("lr", "eps", "weight_decay"):
            _check_at_least_zero(name, group[name])
        if len(group["betas"]) != 2 or not all(0 <= beta < 1 for beta in group["betas"]):
            raise ValueError(f"betas must be two numbers in [0, 1), not {group['betas']}")
        super().add_param_group(param_group)

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update every parameter that has a gradient; return the loss of `closure`, if given."""
        loss = _evaluate(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)
        return loss

    def _update(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        """Update one parameter in place, with one temporary tensor of its size."""
        if gradient.is_sparse:
            raise RuntimeError(
                f"AdamW needs dense gradients; this one of shape {tuple(gradient.shape)} is sparse"
            )
        state = self.state[parameter]
        if not state:
            state["step"] = 0
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        state["step"] += 1
        step, exp_avg, exp_avg_sq = state["step"], state["exp_avg"], state["exp_avg_sq"]
        lr, (beta1, beta2) = group["lr"], group["betas"]

        # The decay acts on the parameter itself and never enters the moments: "decoupled".
        parameter.mul_(1 - lr * group["weight_decay"])
        exp_avg.lerp_(gradient, 1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        # Both averages start at zero and are too small at first, by exactly these factors.
        correction1 = 1 - beta1**step
        correction2 = 1 - beta2**step
        denominator = exp_avg_sq.sqrt().div_(math.sqrt(correction2)).add_(group["eps"])
        parameter.addcdiv_(exp_avg, denominator, value=-lr / correction1)


def _check_at_least_zero(name: str, value: float) -> None:
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} must be finite and at least 0, not {value}")


def _evaluate(closure: Callable[[], float] | None) -> float | None:
    # `step` runs without gradients, but a closure calls backward().
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()
