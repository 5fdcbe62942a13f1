"""Fields of configuration dataclasses: their defaults, their lines in `--help`, and their types."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import field
from typing import Any, Literal, get_args, get_origin, get_type_hints

from cs336_basics._support.messages import short_repr


def option(default: Any, description: str) -> Any:
    """Return a dataclass field with a default value and the line that `--help` shows for it."""
    return field(default=default, metadata={"help": description})


def check_types(section: Any, prefix: str = "") -> None:
    """Check the values of a configuration dataclass against its annotations.

    Numbers of NumPy become plain ones, paths strings, lists tuples, and integers floats where
    floats are annotated: configurations are written as YAML.

    Args:
        section: the dataclass; its values may be replaced by equal ones of the annotated type.
        prefix: of the names in messages, such as "optimizer.".

    Raises:
        TypeError: a value has another type; the message names the field and the value.
        ValueError: a value is not one of those that are possible, or an integer does not fit 64
            bits.
    """
    kinds = get_type_hints(type(section))
    for found in dataclasses.fields(section):
        value, kind = getattr(section, found.name), kinds[found.name]
        name = prefix + found.name
        try:
            setattr(section, found.name, _plain(kind, value))
        except TypeError:
            raise TypeError(f"{name} is {short_repr(value)}: it must be {describe(kind)}") from None
        except OverflowError:
            raise ValueError(f"{name} is {short_repr(value)}: it must fit 64 bits") from None
        except ValueError:
            raise ValueError(
                f"{name} is {short_repr(value)}: it must be {describe(kind)}"
            ) from None


def _plain(kind: Any, value: Any) -> Any:
    """Return a value as its annotation asks; see `check_types` for the errors."""
    if may_be_none(kind):
        return None if value is None else _plain(without_none(kind), value)
    if takes_several(kind):
        if not isinstance(value, (list, tuple)):
            return _plain(str, value)
        if not value:
            raise TypeError
        return tuple(_plain(str, item) for item in value)
    if hasattr(value, "item") and not isinstance(value, (list, tuple)):
        value = value.item()
    if dataclasses.is_dataclass(kind):
        fits = isinstance(value, kind)  # type: ignore[arg-type]
    elif get_origin(kind) is Literal:
        if not isinstance(value, str):
            raise TypeError
        if value not in get_args(kind):
            raise ValueError
        fits = True
    elif get_origin(kind) is tuple:
        if not isinstance(value, (list, tuple)) or len(value) != len(get_args(kind)):
            raise TypeError
        return tuple(_plain(part, item) for part, item in zip(get_args(kind), value, strict=True))
    elif kind is str:
        value = os.fspath(value)
        fits = isinstance(value, str)
    elif kind is bool:
        fits = isinstance(value, bool)
    else:
        fits = isinstance(value, int if kind is int else (int, float))
        fits = fits and not isinstance(value, bool)
        if fits and kind is float:
            return float(value)
        if fits and abs(value) >= 2**63:
            raise OverflowError
    if not fits:
        raise TypeError
    return value


def takes_several(kind: Any) -> bool:
    """Return whether a field takes one string or several."""
    return tuple[str, ...] in get_args(kind)


def may_be_none(kind: Any) -> bool:
    """Return whether a field may be None."""
    return type(None) in get_args(kind)


def describe(kind: Any) -> str:
    """Return what values of a type are, for messages."""
    if takes_several(kind):
        return "a string, or a list of strings"
    if may_be_none(kind):
        return f"{describe(without_none(kind))} or null"
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    if get_origin(kind) is tuple:
        return f"a list of {len(get_args(kind))} numbers, such as [0.9, 0.95]"
    if dataclasses.is_dataclass(kind):
        return f"of type {kind.__name__}"  # type: ignore[union-attr]
    return {int: "an integer", float: "a number", bool: "true or false", str: "a string"}[kind]


def without_none(kind: Any) -> Any:
    """Return a type without None, if that was one of its alternatives."""
    if not may_be_none(kind):
        return kind
    left = [part for part in get_args(kind) if part is not type(None)]
    return left[0] if len(left) == 1 else left[0] | left[1]
