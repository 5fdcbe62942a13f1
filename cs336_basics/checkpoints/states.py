"""Whether saved states fit a model and an optimizer, checked before either is changed.

PyTorch compares the weights while it copies them, and of an optimizer only the sizes of its groups:
the state of another algorithm is accepted, and the next step fails or silently goes wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from cs336_basics._support.messages import short_repr

_ADAM = {"step", "exp_avg", "exp_avg_sq"}
_ADAM_OF_TORCH = [_ADAM, {*_ADAM, "max_exp_avg_sq"}]
_KEPT: dict[str, list[set[str]]] = {
    "SGD": [{"step"}],
    "MomentumSGD": [{"momentum_buffer"}],
    "AdamW": _ADAM_OF_TORCH,
    "torch.Adam": _ADAM_OF_TORCH,
    "Muon": [{"momentum_buffer"}, _ADAM],
}
"""What an algorithm keeps for a parameter that it has updated. Others are not checked."""


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


def checked_state(
    optimizer: Optimizer, saved: Mapping[Any, Any], kind: str | None, source: str
) -> dict[int, dict[str, Any]]:
    """Return a copy of a saved state: what is kept for each parameter, by its number.

    `kind` is what `kind_of` returned for the optimizer that was saved; None: not known.

    Raises:
        ValueError: it is the state of another algorithm, or of other parameters.
    """
    what = f"{source} is of another optimizer than {kind_of(optimizer)}"
    if kind not in (None, kind_of(optimizer)):
        raise ValueError(f"{what}: {short_repr(kind)}")
    parameters = dict(enumerate(p for group in optimizer.param_groups for p in group["params"]))
    expected = _KEPT.get(kind_of(optimizer))
    state = {}
    for index, values in saved.items():
        if index not in parameters or not isinstance(values, dict):
            raise ValueError(f"{what}: it has other parameters")
        if expected is not None and values and set(values) not in expected:
            raise ValueError(f"{what}: of a parameter it has {short_repr(list(values))}")
        for key, value in values.items() if expected is not None else ():
            if key != "step":
                _check_tensor(value, parameters[index], f"{source}: the optimizer's {key}")
            elif not _is_step(value):
                raise ValueError(f"{source}: the optimizer's step is {short_repr(value)}")
        # A tensor that was read may lie in the file.
        state[index] = {k: v.clone() if isinstance(v, Tensor) else v for k, v in values.items()}
    return state


def _is_step(value: Any) -> bool:
    if isinstance(value, Tensor):
        value = value.item() if value.numel() == 1 else None
    return isinstance(value, (int, float)) and 0 <= value < 2**63


def _check_tensor(value: Any, expected: Tensor, name: str) -> None:
    """Check that a value is a tensor of the same shape and type; types with fractions are alike."""
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} is {short_repr(value)}")
    is_alike = value.is_floating_point() and expected.is_floating_point()
    if value.shape != expected.shape or not (is_alike or value.dtype == expected.dtype):
        found, wanted = (f"{t.dtype} of shape {tuple(t.shape)}" for t in (value, expected))
        raise ValueError(f"{name} is {found}, not {wanted}")
