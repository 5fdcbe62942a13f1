"""Whether saved states fit a model and an optimizer, checked before either is changed.

PyTorch compares the weights while it copies them, and of an optimizer only the sizes of its groups:
the state of another algorithm is accepted, and the next step fails or silently goes wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from cs336_basics._support.messages import short_repr

_IMPLEMENTATION = ("fused", "foreach", "capturable", "differentiable")
"""Settings that select an implementation of the same update, with the same state."""


def plain_name(name: str) -> str:
    """Return a parameter's name without the prefixes of `torch.compile`, DDP and checkpointing."""
    for mark in ("_orig_mod.", "_checkpoint_wrapped_module."):
        name = name.replace(mark, "")
    return name.removeprefix("module.")


def kind_of(optimizer: Optimizer) -> str:
    """Return the name of an optimizer's algorithm; AdamW is the same here and in PyTorch."""
    name = type(optimizer).__name__
    is_torchs = type(optimizer).__module__.startswith("torch.")
    return f"torch.{name}" if is_torchs and name != "AdamW" else name


def checked_weights(model: Module, saved: Mapping[str, Any], source: str) -> dict[str, Tensor]:
    """Return saved weights under the names that they have in this model, compiled or not.

    Raises:
        ValueError: `saved` lacks one, has another one, or one has another shape or kind of number.
    """
    own = {plain_name(name): (name, value) for name, value in model.state_dict().items()}
    weights = {plain_name(name): value for name, value in saved.items()}
    for name in [*own, *weights]:
        if name not in weights or name not in own:
            has = "has" if name in weights else "lacks"
            raise ValueError(f"{source} is of another model: it {has} {short_repr(name)}")
        _check_tensor(weights[name], own[name][1], f"{source} is of another model: {name}")
    return {own[name][0]: value for name, value in weights.items()}


def checked_optimizer_state(
    optimizer: Optimizer, saved: Mapping[str, Any], kind: str | None, source: str
) -> dict[str, Any]:
    """Return a copy of a saved state that `optimizer.load_state_dict` takes.

    Args:
        optimizer: is not changed.
        saved: what the `state_dict` of an optimizer returned, or something else.
        kind: what `kind_of` returned for it; None: not known.
        source: name of the checkpoint, for messages.

    Raises:
        ValueError: it is the state of another algorithm, or of other parameters; or a setting or
            what is kept for a parameter is not what this optimizer has.
    """
    what = f"{source} is of another optimizer than {kind_of(optimizer)}"
    if kind not in (None, kind_of(optimizer)):
        raise ValueError(f"{what}: {short_repr(kind)}")
    groups, state = saved.get("param_groups"), saved.get("state")
    if not isinstance(groups, list) or not isinstance(state, dict):
        raise ValueError(f"{source} holds no state of an optimizer")
    if [*map(_size, groups)] != [len(own["params"]) for own in optimizer.param_groups]:
        raise ValueError(f"{what}: it has other groups of parameters")
    completed, kept = [], {}
    for group, own in zip(groups, optimizer.param_groups, strict=True):
        implementation = {key: own[key] for key in _IMPLEMENTATION if key in own}
        settings = {**own, **group, **implementation}
        if hasattr(optimizer, "check_settings"):
            try:
                optimizer.check_settings(settings)
            except (ValueError, TypeError) as error:
                raise ValueError(f"{source}, settings of the optimizer: {error}") from None
        completed.append(settings)
        for index, parameter in zip(group["params"], own["params"], strict=True):
            values = state.get(index, {})
            if not isinstance(values, dict):
                raise ValueError(f"{source} holds no state of an optimizer")
            values = {key: value for key, value in values.items() if value is not None}
            expected = _kept_values(optimizer, settings)
            if values and expected not in (None, set(values)):
                raise ValueError(f"{what}: of a parameter it has {short_repr(list(values))}")
            for key in expected or ():
                if key != "step" and values:
                    name = f"{source}: the optimizer's {key}"
                    _check_tensor(values[key], parameter, name)
            if not _is_step(values.get("step", 0)):
                raise ValueError(f"{source}: the optimizer's step is {short_repr(values['step'])}")
            # A tensor that was read may lie in the file.
            kept[index] = {k: v.clone() if isinstance(v, Tensor) else v for k, v in values.items()}
    return {"state": kept, "param_groups": completed}


def _size(group: Any) -> int:
    """Return the number of parameters of a group, -1 for what is none."""
    indices = group.get("params") if isinstance(group, dict) else None
    if not isinstance(indices, list) or not all(isinstance(index, int) for index in indices):
        return -1
    return len(indices)


def _is_step(value: Any) -> bool:
    if isinstance(value, Tensor):
        value = value.item() if value.numel() == 1 else None
    return isinstance(value, (int, float)) and 0 <= value < 2**63


def _kept_values(optimizer: Optimizer, settings: dict[str, Any]) -> set[str] | None:
    """Return the names of what is kept for a parameter that was updated; None: not known."""
    if hasattr(optimizer, "kept_values"):
        names: set[str] = optimizer.kept_values(settings)
        return names
    if isinstance(optimizer, (torch.optim.Adam, torch.optim.AdamW)):
        names = {"step", "exp_avg", "exp_avg_sq"}
        return names | {"max_exp_avg_sq"} if settings["amsgrad"] else names
    return None


def _check_tensor(value: Any, expected: Tensor, name: str) -> None:
    """Check that a value is a tensor of the same shape and type; types with fractions are alike."""
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} is {short_repr(value)}")
    is_alike = value.is_floating_point() and expected.is_floating_point()
    if value.shape != expected.shape or not (is_alike or value.dtype == expected.dtype):
        found, wanted = (
            f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
            for tensor in (value, expected)
        )
        raise ValueError(f"{name} is {found}, not {wanted}")
