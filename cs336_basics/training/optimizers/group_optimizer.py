"""What the optimizers share: steps, parameter groups, and the check of their settings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, MutableMapping, Set
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from cs336_basics._support.errors import Argument, InputError

Parameters = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
"""Tensors, named tensors, or groups such as `{"params": tensors, "lr": 0.1}`."""

States = MutableMapping[Tensor, dict[str, Any]]
"""The state of each parameter, an empty dictionary at first."""

Update = Callable[[list[Tensor], States, dict[str, Any]], None]
"""Updates parameters, which all have a gradient, and their states with the settings of a group."""


class GroupOptimizer(Optimizer):
    """An optimizer that updates one parameter group after another with an update rule.

    Args:
        params: The parameters.
        update: The update rule.
        settings: The settings of each group that does not have its own, such as `lr`.

    Raises:
        ValueError: If a setting, including one of a parameter group, is out of range.
    """

    def __init__(self, params: Parameters, update: Update, settings: dict[str, Any]) -> None:
        self._update = update
        super().__init__(params, settings)

    @property
    def algorithm(self) -> str:
        """The name by which a checkpoint knows the optimizer that saved it."""
        own = type(self)
        return own.__name__ if own is not GroupOptimizer else self._update.__name__

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
            self._update(used, self.state, group)
        return loss

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with their own settings. The constructor calls this method too."""
        self.check_settings({**self.defaults, **param_group})
        super().add_param_group(param_group)

    def check_settings(self, group: dict[str, Any]) -> None:
        """Check the settings of a group.

        Raises:
            ValueError: If a setting is out of range.
        """
        for name in ("lr", "eps", "weight_decay", "lr_scale"):
            if not 0 <= group.get(name, 0) <= sys.float_info.max:
                raise InputError(f"must be finite and at least 0, got {group[name]}", argument=name)
        if not 0 <= group.get("momentum", 0) < 1:
            raise InputError(f"must be in [0, 1), got {group['momentum']}", argument="momentum")
        betas = group.get("betas", (0, 0))
        if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
            raise InputError(f"must be two numbers in [0, 1), got {betas}", argument="betas")
        if group.get("nesterov") and group["momentum"] == 0:
            raise InputError(
                "requires momentum",
                argument="nesterov",
                remedy=("set ", Argument("momentum"), " above 0"),
            )

    def state_keys(self, group: dict[str, Any]) -> Set[str] | None:
        """Return the keys in the state of an updated parameter, or None if they are unknown."""
        return None

    def state_shape(self, key: str, parameter: Tensor) -> torch.Size:
        """Return the shape of a tensor in the state of a parameter."""
        return parameter.shape

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_update": self._update}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a state, which may come from one of PyTorch's optimizers."""
        super().__setstate__(state)
        # A state of an earlier version has no newer settings, which are unset by default.
        for key in (key for key, value in self.defaults.items() if value is None):
            for group in self.param_groups:
                group.setdefault(key, None)
        for values in self.state.values():
            # PyTorch stores a float32 tensor, which would round the powers of beta.
            if isinstance(values.get("step"), Tensor):
                values["step"] = int(values["step"])
