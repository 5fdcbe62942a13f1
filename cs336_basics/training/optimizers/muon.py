"""Muon."""

from __future__ import annotations

import math
from collections.abc import Set
from typing import Any

import torch
from torch import Tensor

from cs336_basics._support.errors import Argument, InputError
from cs336_basics.training.optimizers.adamw import ADAMW_STATE, update_adamw
from cs336_basics.training.optimizers.group_optimizer import GroupOptimizer, Parameters, States


class Muon(GroupOptimizer):
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

    With a `row_beta`, the rows of an update, one for each output of the matrix, become about
    equally large (Li et al. 2025, "NorMuon: Making Muon more efficient and scalable", algorithm 1).
    The update D = orthogonalize(U) is replaced, without a change of its Frobenius norm, by:

        v <- row_beta * v + (1 - row_beta) * mean(D^2 of a row)      (one number for each row)
        D <- c * D / (sqrt(v) + eps)

    The learning rate of a group is `lr` times its `lr_scale`, so a schedule can set the same `lr`
    for all groups. `precision`, "float32" or "bfloat16", applies to the matrix products of
    `orthogonalize`. Parameters may be sharded over processes (FSDP). The update depends on the
    complete matrix, so sharded matrices are gathered, one at a time.

    The state of a matrix is `momentum_buffer` (M), a tensor like the matrix, and with a `row_beta`
    also `row_squares` (v) of shape (rows, 1). Parameters in other groups have AdamW's state.

    Args:
        params: Parameters or parameter groups, as for any optimizer of torch.
        lr: Learning rate.
        betas, eps, weight_decay: See `AdamW`.
        momentum: Factor of the average gradient in the update of a matrix.
        row_beta: Factor of the average squares of a row, or None for no NorMuon.
        muon: Whether a group that does not say so has matrices for Muon.
        lr_scale: Factor of the learning rate of a group.
        precision: Number format of the matrix products of Muon.

    Raises:
        ValueError: If a setting is out of range, or a Muon group has a parameter that is not a
            matrix.

    Example:
        >>> import torch
        >>> from cs336_basics.training import Muon
        >>> matrix, gain = torch.nn.Parameter(torch.eye(3)), torch.nn.Parameter(torch.ones(3))
        >>> optimizer = Muon([{"params": [matrix], "muon": True}, {"params": [gain]}], lr=0.01)
        >>> (matrix @ gain).sum().backward()
        >>> optimizer.step()
        >>> bool((gain < 1).all())
        True
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        momentum: float = 0.95,
        row_beta: float | None = None,
        muon: bool = False,
        lr_scale: float = 1.0,
        precision: str = "float32",
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        own = {
            "momentum": momentum,
            "row_beta": row_beta,
            "muon": muon,
            "lr_scale": lr_scale,
            "precision": precision,
        }
        super().__init__(params, update_muon, {**defaults, **own})

    def check_settings(self, group: dict[str, Any]) -> None:
        """Check the settings of a group.

        Raises:
            ValueError: If a setting is out of range.
        """
        super().check_settings(group)
        if group["precision"] not in ("float32", "bfloat16"):
            raise InputError(
                f"must be float32 or bfloat16, got {group['precision']!r}", argument="precision"
            )
        row_beta = group["row_beta"]
        if row_beta is not None and not 0 <= row_beta < 1:
            raise InputError(f"must be None or in [0, 1), got {row_beta}", argument="row_beta")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with their own settings. The constructor calls this method too."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for parameter in group["params"] if group["muon"] else ():
            if parameter.ndim != 2:
                self.param_groups.pop()
                raise InputError(
                    "parameters in a Muon group must be matrices, got shape "
                    f"{tuple(parameter.shape)}",
                    remedy=("put the parameter into a group with ", Argument("muon", False)),
                )

    def state_keys(self, group: dict[str, Any]) -> Set[str]:
        """Return the keys in the state of an updated parameter."""
        if not group["muon"]:
            return ADAMW_STATE
        return {"momentum_buffer"} | ({"row_squares"} if group["row_beta"] is not None else set())

    def state_shape(self, key: str, parameter: Tensor) -> torch.Size:
        """Return the shape of a tensor in the state of a parameter."""
        return torch.Size([len(parameter), 1]) if key == "row_squares" else parameter.shape


def update_muon(parameters: list[Tensor], states: States, group: dict[str, Any]) -> None:
    """Update parameters in place; see `Muon`."""
    scaled = {**group, "lr": group["lr"] * group["lr_scale"]}
    if group["muon"]:
        _update_matrices(parameters, states, scaled)
    else:
        update_adamw(parameters, states, scaled)


def _update_matrices(parameters: list[Tensor], states: States, group: dict[str, Any]) -> None:
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
            state = states[matrix]
            if not state:
                state["momentum_buffer"] = torch.zeros_like(matrix)
            assert matrix.grad is not None
            average = state["momentum_buffer"].lerp_(matrix.grad, 1 - momentum)
            ahead.append(torch.lerp(matrix.grad, average, momentum))
        directions = _directions(ahead, dtype)
        size = 0.2 * math.sqrt(max(shape))
        for matrix, direction in zip(matrices, directions, strict=True):
            if group["row_beta"] is not None:
                direction = _with_equal_rows(direction.to(matrix.dtype), states[matrix], group)
            matrix.mul_(1 - lr * group["weight_decay"])
            matrix.add_(direction.to(matrix.dtype), alpha=-lr * size)


def _with_equal_rows(direction: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Return an update whose rows are about equally large, with the same Frobenius norm."""
    squares = direction.square().mean(dim=1, keepdim=True)
    if "row_squares" not in state:
        state["row_squares"] = torch.zeros_like(squares)
    average: Tensor = state["row_squares"].lerp_(squares, 1 - group["row_beta"])
    equal: Tensor = direction / (average.sqrt() + group["eps"])
    # A matrix of zeros stays as it is.
    return equal.mul_(direction.norm() / equal.norm().clamp(min=torch.finfo(equal.dtype).tiny))


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
