"""Optimizers: SGD in two forms, AdamW and Muon. `build_optimizer` creates a run's optimizer."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from cs336_basics._support.errors import InputError

if TYPE_CHECKING:
    from cs336_basics.training.config import OptimizerConfig

Parameters = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
"""Tensors, named tensors, or groups such as `{"params": tensors, "lr": 0.1}`."""


class _GroupOptimizer(Optimizer):
    """Base class of the optimizers below. `step` updates one parameter group after another."""

    @torch.no_grad()
    def step(  # type: ignore[override]
        self, closure: Callable[[], float] | None = None
    ) -> float | None:
        """Update every parameter that has a gradient, and return the loss of `closure` if given."""
        loss = None
        if closure is not None:
            with torch.enable_grad():  # the closure calls backward()
                loss = closure()
        for group in self.param_groups:
            used = [parameter for parameter in group["params"] if parameter.grad is not None]
            self._update_group(used, group)
        return loss

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with their own settings. The constructor calls this method too."""
        self._check_settings({**self.defaults, **param_group})
        super().add_param_group(param_group)

    def _check_settings(self, group: dict[str, Any]) -> None:
        """Raise ValueError if a setting of the group is out of range."""
        for name in ("lr", "eps", "weight_decay", "lr_scale"):
            if not 0 <= group.get(name, 0) <= sys.float_info.max:
                raise InputError(f"{name} must be finite and at least 0, got {group[name]}")
        if not 0 <= group.get("momentum", 0) < 1:
            raise InputError(f"momentum must be in [0, 1), got {group['momentum']}")
        betas = group.get("betas", (0, 0))
        if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
            raise InputError(f"betas must be two numbers in [0, 1), got {betas}")
        if group.get("nesterov") and group["momentum"] == 0:
            raise InputError("nesterov requires momentum; set momentum above 0")

    def _update_group(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        """Update parameters in place with their group's settings."""
        raise NotImplementedError

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a state, which may come from one of PyTorch's optimizers."""
        super().__setstate__(state)
        for values in self.state.values():
            # PyTorch stores a float32 tensor, which would round the powers of beta.
            if isinstance(values.get("step"), Tensor):
                values["step"] = int(values["step"])


class SGD(_GroupOptimizer):
    """Gradient descent with a decaying learning rate.

    Step t = 0, 1, ... computes p <- p - lr / sqrt(t + 1) * grad. The state of a parameter is
    `step`, the number of steps taken.

    Raises:
        ValueError: If lr is negative or not finite.
    """

    def __init__(self, params: Parameters, lr: float = 1e-3) -> None:
        super().__init__(params, {"lr": lr})

    def _update_group(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        for parameter in parameters:
            assert parameter.grad is not None
            state = self.state[parameter]
            step = state.get("step", 0)
            parameter.add_(parameter.grad, alpha=-group["lr"] / math.sqrt(step + 1))
            state["step"] = step + 1


class MomentumSGD(_GroupOptimizer):
    """Gradient descent with momentum (Sutskever et al. 2013) and an L2 penalty.

    Unlike `SGD`, it does not decay the learning rate; use a schedule for that. With gradient g:

        g <- g + weight_decay * p
        m <- momentum * m + g
        p <- p - lr * m                         (nesterov: p <- p - lr * (g + momentum * m))

    This equals `torch.optim.SGD`. The weight decay is not decoupled, so it enters the momentum. The
    state of a parameter is `momentum_buffer` (m), a tensor like the parameter. Without momentum,
    the state is empty.

    Raises:
        ValueError: If a setting, including one of a parameter group, is out of range.
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
        super().__init__(params, {**defaults, "nesterov": nesterov})

    def _update_group(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        momentum = group["momentum"]
        for parameter in parameters:
            direction = parameter.grad
            assert direction is not None
            if group["weight_decay"]:
                direction = direction.add(parameter, alpha=group["weight_decay"])
            if momentum:
                state = self.state[parameter]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(parameter)
                average = state["momentum_buffer"].mul_(momentum).add_(direction)
                ahead = group["nesterov"]
                direction = direction.add(average, alpha=momentum) if ahead else average
            parameter.add_(direction, alpha=-group["lr"])


class AdamW(_GroupOptimizer):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2).

    With gradient g at step t = 1, 2, ...:

        p <- p - lr * weight_decay * p
        m <- beta1 * m + (1 - beta1) * g
        v <- beta2 * v + (1 - beta2) * g^2
        p <- p - lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)

    This equals `torch.optim.AdamW`. The state of a parameter consists of the int `step` and the
    tensors `exp_avg` (m) and `exp_avg_sq` (v), which have the parameter's shape, dtype and device.

    Raises:
        ValueError: If a setting, including one of a parameter group, is out of range.
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

    def _update_group(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        for parameter in parameters:
            assert parameter.grad is not None
            self._update(parameter, parameter.grad, group)

    def _update(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        """Update one parameter in place, using one temporary tensor of its size."""
        state = self.state[parameter]
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


class Muon(AdamW):
    """Muon for matrices and AdamW for all other parameters.

    A few directions dominate a matrix's gradient. Muon gives all directions the same weight by
    replacing the averaged gradient with the nearest (semi-)orthogonal matrix (Jordan et al. 2024,
    "Muon: An optimizer for hidden layers in neural networks"). In a group with `"muon": True`, each
    matrix W with gradient G is updated by:

        M <- momentum * M + (1 - momentum) * G
        U <- momentum * M + (1 - momentum) * G          (Nesterov: one step ahead)
        W <- W - lr * weight_decay * W
        W <- W - lr * 0.2 * sqrt(max(rows, columns)) * orthogonalize(U)

    The factor 0.2 * sqrt(max(rows, columns)) makes updates about as large as AdamW's, so both
    optimizers can share a learning rate and a weight decay (Liu et al. 2025, "Muon is Scalable for
    LLM Training", section 2.2). AdamW updates the other groups.

    The learning rate of a group is `lr` times its `lr_scale`, so a schedule can set the same `lr`
    for all groups. `precision`, "float32" or "bfloat16", applies to the matrix products of
    `orthogonalize`. Parameters may be sharded over processes (FSDP). The update depends on the
    complete matrix, so sharded matrices are gathered, one at a time.

    The state of a matrix is `momentum_buffer` (M), a tensor like the matrix. Parameters in other
    groups have AdamW's state.

    Raises:
        ValueError: If a setting is out of range, or a Muon group has a parameter that is not a
            matrix.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        momentum: float = 0.95,
        muon: bool = False,
        lr_scale: float = 1.0,
        precision: str = "float32",
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        own = {"momentum": momentum, "muon": muon, "lr_scale": lr_scale, "precision": precision}
        # AdamW's constructor accepts only its own settings.
        Optimizer.__init__(self, params, {**defaults, **own})

    def _check_settings(self, group: dict[str, Any]) -> None:
        """Raise ValueError if a setting of the group is out of range."""
        super()._check_settings(group)
        if group["precision"] not in ("float32", "bfloat16"):
            raise InputError(f"precision must be float32 or bfloat16, got {group['precision']!r}")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with their own settings. The constructor calls this method too."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for parameter in group["params"] if group["muon"] else ():
            if parameter.ndim != 2:
                self.param_groups.pop()
                raise InputError(
                    f"parameters in a Muon group must be matrices, got shape "
                    f"{tuple(parameter.shape)}; put the parameter into a group with muon=False"
                )

    def _update_group(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        scaled = {**group, "lr": group["lr"] * group["lr_scale"]}
        if group["muon"]:
            self._update_matrices(parameters, scaled)
        else:
            super()._update_group(parameters, scaled)

    def _update_matrices(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        """Update matrices in place. Matrices of the same shape are orthogonalized together."""
        by_shape: dict[torch.Size, list[Tensor]] = {}
        for parameter in parameters:
            by_shape.setdefault(parameter.shape, []).append(parameter)
        lr, momentum = group["lr"], group["momentum"]
        for shape, matrices in by_shape.items():
            dtype = torch.bfloat16
            if group["precision"] == "float32":  # becomes float64 for float64 weights
                dtype = torch.promote_types(matrices[0].dtype, torch.float32)
            ahead = []
            for matrix in matrices:
                state = self.state[matrix]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(matrix)
                assert matrix.grad is not None
                average = state["momentum_buffer"].lerp_(matrix.grad, 1 - momentum)
                ahead.append(torch.lerp(matrix.grad, average, momentum))
            directions = _directions(ahead, dtype)
            size = 0.2 * math.sqrt(max(shape))
            for matrix, direction in zip(matrices, directions, strict=True):
                matrix.mul_(1 - lr * group["weight_decay"])
                matrix.add_(direction.to(matrix.dtype), alpha=-lr * size)


def _directions(matrices: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """Orthogonalize matrices of the same shape in `dtype`.

    Sharded matrices are gathered one at a time to save memory. All processes compute the same
    result, and each keeps its shard.
    """
    if not hasattr(matrices[0], "full_tensor"):
        return list(orthogonalize(torch.stack(matrices).to(dtype)))
    from torch.distributed.tensor import DTensor, Replicate

    directions: list[Tensor] = []
    for matrix in matrices:
        assert isinstance(matrix, DTensor)
        mesh, reduced = matrix.device_mesh, matrix.to(dtype)
        assert isinstance(reduced, DTensor)
        direction = orthogonalize(reduced.full_tensor())
        replicas = DTensor.from_local(direction, mesh, [Replicate()] * mesh.ndim, run_check=False)
        directions.append(replicas.redistribute(mesh, matrix.placements))
    return directions


def orthogonalize(matrices: Tensor, steps: int = 5) -> Tensor:
    """Return matrices of shape (..., rows, columns) with singular values moved close to 1.

    U S V^T becomes approximately U V^T, the nearest matrix with orthonormal rows or columns. Each
    step applies the polynomial a s + b s^3 + c s^5 to all singular values, using only matrix
    products. The coefficients (Jordan et al. 2024) trade exactness for speed: after five steps,
    singular values that were above about 1/500 of the Frobenius norm are between 0.68 and 1.21.
    A model trains as well with these values as with values of exactly 1. A matrix of zeros is
    returned unchanged.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices  # makes the products below smaller
    x = x.reshape(-1, *x.shape[-2:])
    # The largest singular value must not exceed 1. The Frobenius norm is an upper bound.
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        # a x + (b gram + c gram^2) x
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).reshape(matrices.shape)


def build_optimizer(
    model: Module,
    config: OptimizerConfig,
    *,
    lr: float = 1e-3,
    precision: str = "float32",
    fused: bool = False,
) -> Optimizer:
    """Create the configured optimizer for the parameters of a TransformerLM.

    The kinds "adamw" and "sgd" (MomentumSGD) have one group with all parameters. "muon" has up to
    four groups: the matrices of the blocks, updated by Muon, and the embedding, the head and the
    gains, updated by AdamW. The embedding and the head have their own learning rates. Only the
    matrices and the head have weight decay. In the other groups, weight decay would pull the
    gains, which should be about 1, and the vectors of rare tokens towards 0.

    Args:
        model: The model.
        config: Kind and settings of the optimizer.
        lr: Learning rate.
        precision: Dtype of Muon's matrix products, "float32" or "bfloat16".
        fused: Whether "adamw" uses torch's fused AdamW, which computes the same update in one pass
            over memory. Other kinds ignore this argument.

    Raises:
        ValueError: If a setting is out of range.
    """
    settings: dict[str, Any] = {"lr": lr, "weight_decay": config.weight_decay}
    if config.kind == "sgd":
        return MomentumSGD(
            model.parameters(), momentum=config.momentum, nesterov=config.nesterov, **settings
        )
    settings |= {"betas": config.betas, "eps": config.eps}
    if config.kind == "adamw":
        if fused:
            return torch.optim.AdamW(model.parameters(), fused=True, **settings)
        return AdamW(model.parameters(), **settings)
    matrices: dict[str, Any] = {"params": [], "muon": True}
    embedding: dict[str, Any] = {
        "params": [],
        "lr_scale": config.embedding_lr_scale,
        "weight_decay": 0.0,
    }
    head: dict[str, Any] = {"params": [], "lr_scale": config.head_lr_scale}
    gains: dict[str, Any] = {"params": [], "weight_decay": 0.0}
    for name, parameter in model.named_parameters():
        if name.startswith("token_embeddings"):
            group = embedding
        elif name.startswith("lm_head"):
            group = head
        else:
            group = matrices if parameter.ndim == 2 else gains
        group["params"].append(parameter)
    return Muon(
        [group for group in (matrices, embedding, head, gains) if group["params"]],
        momentum=config.momentum,
        precision=precision,
        **settings,
    )
