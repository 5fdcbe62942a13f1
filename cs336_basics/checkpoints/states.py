"""Check that saved states fit a model and an optimizer before either is changed.

PyTorch checks weights only while it copies them. For an optimizer, it checks only the sizes of the
parameter groups, so it accepts the state of a different algorithm. The next step then fails or
silently computes wrong weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr

_KEYS_OF_TORCH = [
    {"step", "exp_avg", "exp_avg_sq"},
    {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
]
"""The possible sets of keys in the state of a parameter that PyTorch's Adam or AdamW updated."""


def plain_name(name: str) -> str:
    """Return a parameter's name without prefixes of `torch.compile`, DDP or checkpointing."""
    for mark in ("_orig_mod.", "_checkpoint_wrapped_module."):
        name = name.replace(mark, "")
    return name.removeprefix("module.")


def kind_of(optimizer: Optimizer) -> str:
    """Return the name of an optimizer's algorithm. PyTorch's AdamW has the same name as ours."""
    if hasattr(optimizer, "algorithm"):  # an optimizer of this library
        return str(optimizer.algorithm)
    name = type(optimizer).__name__
    is_torchs = type(optimizer).__module__.startswith("torch.")
    return f"torch.{name}" if is_torchs and name != "AdamW" else name


def checked_weights(model: Module, saved: Mapping[str, Any], source: str) -> dict[str, Tensor]:
    """Return saved weights under their names in this model, which may be compiled.

    Raises:
        ValueError: If a weight is missing or unexpected, or has a different shape or dtype.
    """
    own = {plain_name(name): (name, value) for name, value in model.state_dict().items()}
    weights = {plain_name(name): value for name, value in saved.items()}
    different = f"{source} was saved from a different model"
    for name in [*own, *weights]:
        if name not in weights:
            raise InputError(f"{different}: {name!r} is missing")
        if name not in own:
            raise InputError(f"{different}: unexpected {short_repr(name)}")
        _check_tensor(weights[name], own[name][1], f"{different}: {name}")
    return {own[name][0]: value for name, value in weights.items()}


def checked_state(
    optimizer: Optimizer, saved: Mapping[Any, Any], kind: str | None, source: str
) -> dict[int, dict[str, Any]]:
    """Return a checked copy of a saved optimizer state, by parameter index.

    `kind` is the result of `kind_of` for the saved optimizer, or None if it is unknown.

    Raises:
        ValueError: If the state was saved by a different algorithm or belongs to other parameters.
    """
    own_kind = kind_of(optimizer)
    different = f"{source} was saved by a different optimizer than {own_kind}"
    if kind not in (None, own_kind):
        raise InputError(f"{different}: got {short_repr(kind)}")
    parameters = dict(
        enumerate((group, p) for group in optimizer.param_groups for p in group["params"])
    )
    state = {}
    for index, values in saved.items():
        if index not in parameters or not isinstance(values, dict):
            raise InputError(f"{different}: the parameters differ")
        group, parameter = parameters[index]
        if not _all_dense(values.values()):
            raise InputError(f"{source}: each tensor of an optimizer's state must be dense")
        keys = _state_keys(optimizer, group)
        if keys and values:
            if set(values) not in keys:
                raise InputError(f"{different}: the state has keys {short_repr(list(values))}")
            for key, value in values.items():
                _check_value(optimizer, key, value, parameter, source)
        # The tensors may be views of a file.
        state[index] = {k: v.clone() if isinstance(v, Tensor) else v for k, v in values.items()}
    return state


def check_groups(optimizer: Optimizer, saved: Sequence[Any]) -> None:
    """Check that saved parameter groups have the parameters and valid settings of an optimizer.

    Settings are checked only for the optimizers of this library.

    Raises:
        ValueError, AttributeError, KeyError, TypeError: If they differ.
    """
    for group, own in zip(saved, optimizer.state_dict()["param_groups"], strict=True):
        if list(group["params"]) != own["params"]:
            raise InputError("the parameters differ")
        if not _all_dense(group.values()):
            raise InputError("each tensor of a group's settings must be dense")
        if hasattr(optimizer, "check_settings"):
            # A checkpoint of an earlier version does not have settings that are unset by default.
            unset = {key: value for key, value in own.items() if value is None}
            optimizer.check_settings({key: {**unset, **group}[key] for key in own})
        if _state_keys(optimizer, {**own, **group}) != _state_keys(optimizer, own):
            raise InputError("the states of the groups differ")


def _state_keys(optimizer: Optimizer, group: Mapping[str, Any]) -> list[set[str]]:
    """Return the possible sets of keys in the state of an updated parameter, or [] if unknown.

    An optimizer of this library says them itself.
    """
    if hasattr(optimizer, "state_keys"):
        keys = optimizer.state_keys(group)
        return [] if keys is None else [set(keys)]
    return _KEYS_OF_TORCH if kind_of(optimizer) in ("AdamW", "torch.Adam") else []


def _check_value(
    optimizer: Optimizer, key: str, value: Any, parameter: Tensor, source: str
) -> None:
    name = f"{source}: the optimizer's {key}"
    if key != "step":
        shape_of = getattr(optimizer, "state_shape", lambda key, parameter: parameter.shape)
        _check_tensor(value, parameter, name, shape_of(key, parameter))
        return
    number = value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
    if not isinstance(number, (int, float)) or not 0 <= number < 2**63:
        raise InputError(f"{name} must be a non-negative number, got {short_repr(value)}")


def _check_tensor(value: Any, expected: Tensor, name: str, shape: torch.Size | None = None) -> None:
    """Check the shape and dtype of a value. Any floating-point dtype matches any other.

    `shape` is that of `expected` by default.
    """
    shape = expected.shape if shape is None else shape
    if not isinstance(value, Tensor) or not _all_dense([value]):
        raise InputError(f"{name} must be a dense tensor, got {short_repr(value)}")
    is_alike = value.is_floating_point() and expected.is_floating_point()
    if value.shape != shape or not (is_alike or value.dtype == expected.dtype):
        wanted = f"{expected.dtype} of shape {tuple(shape)}"
        found = f"{value.dtype} of shape {tuple(value.shape)}"
        raise InputError(f"{name} must be {wanted}, got {found}")


def _all_dense(values: Iterable[Any]) -> bool:
    """Return whether each tensor has a value in memory for each of its elements."""
    tensors = (value for value in values if isinstance(value, Tensor))
    return all(t.layout == torch.strided and not (t.is_meta or t.is_nested) for t in tensors)
