"""Whether a saved optimizer state is one of an optimizer, checked before anything is changed.

PyTorch's `load_state_dict` compares the sizes of the groups only: the state of another algorithm is
accepted, and the next step fails, or silently continues with the wrong algorithm.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from cs336_basics._support.messages import short_repr

IMPLEMENTATION = ("fused", "foreach", "capturable", "differentiable")
"""Settings that select an implementation of the same update; the state is the same."""

# Names of parameters, what a scheduler notes, and what is compared on its own.
_NOT_COMPARED = (*IMPLEMENTATION, "params", "param_names", "initial_lr", "decoupled_weight_decay")


def checked_optimizer_state(
    optimizer: Optimizer, saved: dict[str, Any], name: str
) -> dict[str, Any]:
    """Return what `optimizer.load_state_dict` takes, after checking that it is of this algorithm.

    Compared are the sizes of the parameter groups, the names and types of their settings, and for
    our optimizers and PyTorch's Adam, AdamW and SGD what is kept for each parameter. A setting that
    was not saved and is off (False, None, 0) is no difference: versions of PyTorch add such ones.

    Args:
        optimizer: is not changed.
        saved: what its `state_dict` returned, or something else.
        name: of the checkpoint, for the messages.

    Returns:
        `saved`, with the optimizer's own values for settings that were not saved.

    Raises:
        ValueError: `saved` is not the state of an optimizer, or of another one.
    """
    groups, state, own = saved.get("param_groups"), saved.get("state"), optimizer.param_groups
    if not isinstance(groups, list) or not all(
        isinstance(group, dict) and isinstance(group.get("params", ()), (list, tuple))
        for group in groups
    ):
        raise ValueError(f"{name} holds no state of an optimizer")
    if not isinstance(state, dict) or not all(isinstance(v, dict) for v in state.values()):
        raise ValueError(f"{name} holds no state of an optimizer")
    sizes = [len(group.get("params", ())) for group in groups]
    own_sizes = [len(group["params"]) for group in own]
    if sizes != own_sizes:
        raise ValueError(
            f"{name} is of another optimizer: its groups have {short_repr(sizes)} parameters, "
            f"those of this one {short_repr(own_sizes)}"
        )
    completed = []
    for group, own_group in zip(groups, own, strict=True):
        _check_settings(optimizer, group, own_group, name)
        settings = {**own_group, **group}
        if hasattr(optimizer, "check_settings"):
            try:
                optimizer.check_settings(settings)
            except ValueError as error:
                raise ValueError(f"{name}: the optimizer's {error}") from None
        completed.append(settings)
        for key, parameter in zip(group.get("params", ()), own_group["params"], strict=True):
            values = state.get(key, {}) if isinstance(key, int) else {}
            _check_values(optimizer, settings, parameter, values, name)
    return {**saved, "param_groups": completed}


def _check_settings(
    optimizer: Optimizer, saved: dict[str, Any], own: dict[str, Any], name: str
) -> None:
    kind = type(optimizer).__name__
    # (What only the saved one has may be a note of the caller.)
    missing = [
        str(key)
        for key in own.keys() - saved.keys()
        if key not in _NOT_COMPARED and _is_on(own[key])
    ]
    if missing:
        raise ValueError(
            f"{name} is of another optimizer than {kind}: it lacks {', '.join(sorted(missing))}, "
            f"and has {', '.join(sorted(map(str, saved.keys() - {'params'})))}"
        )
    if bool(saved.get("muon")) != bool(own.get("muon")):
        raise ValueError(
            f"{name} is of another optimizer than {kind}: muon is {bool(saved.get('muon'))}"
        )
    # AdamW and Adam of PyTorch differ in this alone. (Before PyTorch 2.7 neither has it.)
    decoupled = "decoupled_weight_decay"
    own_value = own.get(decoupled, True)
    if saved.get(decoupled, own_value if "amsgrad" in saved else True) != own_value:
        raise ValueError(
            f"{name} is of another optimizer than {kind}, with {decoupled} {not own_value}"
        )
    for key in saved.keys() & own.keys() - {"params", *_NOT_COMPARED}:
        _check_setting(str(key), saved[key], own[key], name)


def _is_on(value: Any) -> bool:
    return value is not None and not (isinstance(value, (bool, int, float)) and value == 0)


def _check_setting(key: str, value: Any, own: Any, name: str) -> None:
    """Check that a saved setting has the type of the optimizer's own, and is a number if that is.

    Raises:
        ValueError: it has another type, or is NaN or infinite.
    """
    # What is None now may have been set when it was saved, and the reverse.
    if own is None or value is None:
        return
    if isinstance(own, (list, tuple)):
        fits = isinstance(value, (list, tuple)) and len(value) == len(own)
        if fits:
            for item, own_item in zip(value, own, strict=True):
                _check_setting(key, item, own_item, name)
    elif isinstance(own, (bool, str)):
        fits = isinstance(value, type(own))
    elif isinstance(own, (int, float, Tensor)):
        is_tensor = isinstance(value, Tensor) and value.numel() == 1
        fits = is_tensor or (isinstance(value, (int, float)) and not isinstance(value, bool))
        fits = fits and (math.isfinite(value) or not math.isfinite(own))
    else:
        fits = isinstance(value, type(own))
    if not fits:
        raise ValueError(f"{name}: the optimizer's {key} is {short_repr(value)}, of the wrong type")


def _check_values(
    optimizer: Optimizer,
    group: dict[str, Any],
    parameter: Tensor,
    saved: dict[str, Any],
    name: str,
) -> None:
    """Check what is saved for one parameter; nothing, if it was never updated."""
    found = {key for key, value in saved.items() if value is not None}
    expected = _kept_values(optimizer, group)
    if expected is None or not saved:
        return
    if found != expected:
        raise ValueError(
            f"{name} is of another optimizer than {type(optimizer).__name__}: for a parameter it "
            f"has {', '.join(sorted(map(str, found))) or 'nothing'}, not "
            f"{', '.join(sorted(expected)) or 'nothing'}"
        )
    for key in expected:
        value = saved[key]
        if key == "step":
            is_count = isinstance(value, int) and not isinstance(value, bool)
            is_count = is_count or (isinstance(value, Tensor) and value.numel() == 1)
            if not (is_count and 0 <= float(value) < 2**63):
                raise ValueError(f"{name}: the optimizer's step is {short_repr(value)}")
        elif not (isinstance(value, Tensor) and value.shape == parameter.shape):
            shape = tuple(value.shape) if isinstance(value, Tensor) else short_repr(value)
            raise ValueError(
                f"{name}: the optimizer's {key} is {shape}, for a parameter of shape "
                f"{tuple(parameter.shape)}"
            )


def _kept_values(optimizer: Optimizer, group: dict[str, Any]) -> set[str] | None:
    """Return the names of what an optimizer keeps for a parameter that it has updated.

    None: for an optimizer that says nothing about it, and is not known here.
    """
    if hasattr(optimizer, "kept_values"):
        names: set[str] = optimizer.kept_values(group)
        return names
    if type(optimizer) is torch.optim.SGD:
        return {"momentum_buffer"} if group["momentum"] else set()
    if type(optimizer) in (torch.optim.Adam, torch.optim.AdamW):
        names = {"step", "exp_avg", "exp_avg_sq"}
        return names | {"max_exp_avg_sq"} if group["amsgrad"] else names
    return None
