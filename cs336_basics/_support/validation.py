"""Dataclasses whose values pydantic checks, where they are made: configurations, command options.

A value may come from Python, from a YAML file or from a command line, where all values are text.
pydantic converts the text, and holds each value to the type and the limits of its field.
"""

from __future__ import annotations

import dataclasses
import os
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ArgsKwargs

from cs336_basics._support.messages import nearest, short_repr

CHECKED = ConfigDict(extra="forbid", allow_inf_nan=False, defer_build=True)
"""For `pydantic.dataclasses.dataclass(config=CHECKED)`; numbers are finite."""

MAX_INT64 = 2**63 - 1


def _not_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("it should be an integer")
    return value


Count = Annotated[int, BeforeValidator(_not_bool), Field(ge=1, le=MAX_INT64)]
Amount = Annotated[int, BeforeValidator(_not_bool), Field(ge=0, le=MAX_INT64)]


def option(
    help: str,
    default: Any = ...,
    *,
    metavar: str = "",
    rare: bool = False,
    positional: bool = False,
    **limits: Any,
) -> Any:
    """Return a field of a checked dataclass.

    Args:
        help: its line on the help page.
        default: `...` if it is required.
        metavar: what its value is called.
        rare: shown by `--help-all` only.
        positional: its value has no name before it.
        limits: as pydantic.Field takes them.
    """
    shown: Any = {"metavar": metavar, "rare": rare, "positional": positional}
    return Field(default, description=help, json_schema_extra=shown, **limits)


def _text_of(path: Any) -> Any:
    return os.fspath(path) if isinstance(path, os.PathLike) else path


def _one_or_several(paths: Any) -> str | tuple[str, ...]:
    """Return a path as a string, or several as a tuple.

    Raises:
        ValueError: it is neither.
    """
    several = tuple(map(_text_of, paths if isinstance(paths, (list, tuple)) else [paths]))
    if not several or not all(isinstance(path, str) for path in several):
        raise ValueError("it should be a path, or a list of paths")
    return several if len(several) > 1 else several[0]


PathText = Annotated[str, BeforeValidator(_text_of)]
"""A path as a string: configurations are written as YAML."""
Paths = Annotated[str | tuple[str, ...], PlainValidator(_one_or_several)]

T = TypeVar("T")


def build(kind: type[T], values: Mapping[str, Any], show: Callable[[str], str] = str) -> T:
    """Return a checked dataclass from values by dotted name, such as `model.d_model`.

    Args:
        kind: the dataclass.
        values: checked and converted here; the text "null" is None where that is possible.
        show: how a message shows a name.

    Raises:
        ValueError: an unknown name, a wrong type, or an impossible value; in one line.
    """
    fields = dict(fields_of(kind))
    nested: dict[str, Any] = {}
    for name, value in values.items():
        if name not in fields:
            raise ValueError(f"{show(name[:100])} is not an option{nearest(name, fields)}")
        section, _, key = name.rpartition(".")
        may_be_none = type(None) in kinds_of(fields[name].annotation)
        inner = nested.setdefault(section, {}) if section else nested
        inner[key] = None if may_be_none and value == "null" else value
    try:
        return kind(**nested)
    except ValidationError as error:
        raise ValueError(explain(error, show)) from None


def fields_of(kind: Any, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield the dotted name of each value of a dataclass, and what is known of it."""
    for name, field in kind.__pydantic_fields__.items():
        if dataclasses.is_dataclass(field.annotation):
            yield from fields_of(field.annotation, f"{prefix}{name}.")
        else:
            yield prefix + name, field


def kinds_of(annotation: Any) -> list[Any]:
    """Return the alternatives of a type, without what Annotated adds to them."""
    if get_origin(annotation) is Annotated:
        return kinds_of(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [kind for part in get_args(annotation) for kind in kinds_of(part)]
    return [annotation]


def explain(error: ValidationError, show: Callable[[str], str] = str) -> str:
    """Return what is wrong as one line: `batch_size is '0': it should be greater than 0`."""
    lines = []
    for problem in error.errors(include_url=False)[:3]:
        name = show(".".join(map(str, problem["loc"])))
        reason = problem["msg"].removeprefix("Value error, ").replace("Input should", "it should")
        if problem["type"] == "value_error" and isinstance(problem["input"], (ArgsKwargs, dict)):
            lines.append(reason)  # of several values, which it names
        elif problem["type"] in ("missing", "missing_argument", "missing_keyword_only_argument"):
            lines.append(f"{name} is required")
        else:
            lines.append(f"{name} is {short_repr(problem['input'])}: {reason}")
    return "; ".join(lines)


def one_of(names: Iterable[str]) -> BeforeValidator:
    """Return the check that a string is one of some names, which are known at run time only."""
    known = list(names)

    def check(value: Any) -> Any:
        if value not in known:
            raise ValueError(f"it should be {', '.join(known[:-1])} or {known[-1]}")
        return value

    return BeforeValidator(check)
