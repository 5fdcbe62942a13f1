"""Dataclasses that check their values on creation: configurations and command options.

Declare a field as `name: TYPE = option("help", default, limits)`. A value must have its field's
type. Text is parsed only if it is a `Word`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import numbers
import os
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin

from cs336_basics._support.arguments import MAX_INT64
from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.messages import nearest, short_repr

T = TypeVar("T")


class Word(str):
    """Untyped text: a word on the command line, or an unquoted value in YAML."""

    __slots__ = ()


class Limits(NamedTuple):
    """A check that a number is within limits. None means no limit."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def __call__(self, value: Any) -> Any:
        if value is not None:
            for holds, words, limit in (
                (self.ge is None or value >= self.ge, "at least", self.ge),
                (self.gt is None or value > self.gt, "above", self.gt),
                (self.le is None or value <= self.le, "at most", self.le),
                (self.lt is None or value < self.lt, "below", self.lt),
            ):
                if not holds:
                    raise InputError(f"must be {words} {limit}")
        return value


def one_of(names: Iterable[str]) -> Callable[[Any], Any]:
    """Return a check that a string is one of `names`, which, unlike in Literal, may be computed."""
    known = [*names, None]

    def check(value: Any) -> Any:
        if value not in known:
            raise InputError(f"must be {_either(map(repr, known[:-1]))}")
        return value

    return check


def _one_or_several(paths: str | tuple[str, ...]) -> str | tuple[str, ...]:
    if not paths:
        raise InputError("must be a path or a list of paths")
    return paths[0] if isinstance(paths, tuple) and len(paths) == 1 else paths


Count = Annotated[int, Limits(ge=1, le=MAX_INT64)]
Amount = Annotated[int, Limits(ge=0, le=MAX_INT64)]
Paths = Annotated[str | tuple[str, ...], _one_or_several]
"""One or more paths, stored as strings because configurations are written as YAML."""


class Option(NamedTuple):
    """A field of a `Checked` dataclass; see `option`."""

    kind: Any
    default: Any
    help: str = ""
    metavar: str = ""
    argument: str = ""
    rare: bool = False
    positional: bool = False
    limits: Limits = Limits()
    common: bool = False
    resumable: bool = False
    changes_rounding: bool = False
    variants: Mapping[str, Any] = types.MappingProxyType({})

    @property
    def is_required(self) -> bool:
        """Whether the field has no default."""
        return self.default is dataclasses.MISSING


def option(help: str, default: Any = dataclasses.MISSING, **rest: Any) -> Any:
    """Return a field of a `Checked` dataclass.

    Args:
        help: Description on the help page.
        default: Default value. A field without one is required.
        rest: `metavar`, the name of the value on the help page; `argument`, the library's argument
            that the field sets, if it has another name; `rare`, to show the field only on the
            complete help page; `positional`, for a value without an option name before it; the
            limits of a number, as in `Limits`; and for the configuration of a run, `common`, to
            show the field on the short help page; `resumable`, to let a resumed run change it; and
            `changes_rounding`, if it then equals an uninterrupted run only up to rounding.
    """
    limits = Limits(**{key: rest.pop(key) for key in Limits._fields if key in rest})
    return dataclasses.field(default=default, metadata={"help": help, "limits": limits, **rest})


def variant(variants: Mapping[str, Any]) -> Any:
    """Return a field that holds a `Checked` dataclass which its own field `kind` selects.

    Args:
        variants: Mapping from each value of `kind` to its dataclass, whose field `kind` is a
            Literal of this value. The first is the default.
    """
    return dataclasses.field(
        default_factory=lambda: next(iter(variants.values()))(), metadata={"variants": variants}
    )


class Checked:
    """Base class for dataclasses that check their values.

    Values are converted to the annotated type: integers to floats, lists to tuples, paths to
    strings, and NumPy scalars to Python numbers. A subclass that defines `__post_init__` must call
    the base class's method first.
    """

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            InputError: If a value has the wrong type or is out of range. The message is one line.
        """
        kind: Any = type(self)
        for name, known in _options(kind).items():
            object.__setattr__(self, name, _checked(name, getattr(self, name), known))


def build(kind: type[T], values: Mapping[str, Any]) -> T:
    """Build a dataclass from values keyed by dotted names, such as `model.d_model`.

    Args:
        kind: A `Checked` dataclass.
        values: Mapping from dotted names to values of the fields' types or `Word`s.

    Raises:
        InputError: If a name is unknown, or a value is missing, has the wrong type or is out of
            range. The message is one line, and `argument` is the dotted name.
    """
    made = cast(Any, kind)
    known = dict(fields_of(kind, values))
    sections: dict[str, dict[str, Any]] = {"": {}}
    # A wrong `kind` is reported before the settings that depend on it.
    for name, value in sorted(values.items(), key=lambda item: not item[0].endswith(".kind")):
        if name not in known:
            if name in dict(fields_of(kind)):  # of another variant
                section = name.rpartition(".")[0]
                chosen = _class_of(section, _options(made)[section], values)
                raise InputError(
                    f"is not a setting of {_options(chosen)['kind'].default}",
                    argument=name,
                    remedy=("remove it, or choose another ", Argument(f"{section}.kind")),
                )
            inside = next((other for other in known if other.startswith(f"{name}.")), None)
            if inside is not None:  # perhaps a file with a section whose lines are comments
                raise InputError(
                    "is a section of options, not an option",
                    argument=name,
                    remedy=("set options in it, such as ", Argument(inside), ", or remove it"),
                )
            raise InputError(f"is not an option{nearest(name, known)}", argument=name[:100])
        section, _, key = name.rpartition(".")
        sections.setdefault(section, {})[key] = _checked(name, value, known[name])
    missing = [name for name in known if known[name].is_required and name not in values]
    if missing:
        also = [part for name in missing[1:] for part in ("; ", Argument(name), " is required")]
        raise InputError(("is required", *also), argument=missing[0])
    own = sections.pop("")
    nested = {
        name: _section(name, _class_of(name, _options(made)[name], values), inner)
        for name, inner in sections.items()
    }
    return kind(**own, **nested)


def _section(name: str, kind: type[T], values: Mapping[str, Any]) -> T:
    """Build a nested dataclass. Its errors name its fields with the name of the section."""
    try:
        return kind(**values)
    except InputError as error:
        raise error.renamed(lambda key: f"{name}.{key}") from None


def fields_of(kind: Any, values: Mapping[str, Any] | None = None) -> Iterator[tuple[str, Option]]:
    """Yield the dotted name and the `Option` of each value in a dataclass.

    Args:
        kind: The dataclass.
        values: Values by dotted name, which select a variant of each field that has several.
            Without them, the fields of all variants are included.
    """
    for name, known in _options(kind).items():
        if known.variants and values is None:
            yield from ((f"{name}.{key}", inner) for key, inner in _of_all_variants(known))
        elif dataclasses.is_dataclass(known.kind):
            chosen = _class_of(name, known, values or {})
            own = dict(fields_of(chosen))
            if known.variants:
                own["kind"] = dict(_of_all_variants(known))["kind"]
            yield from ((f"{name}.{key}", inner) for key, inner in own.items())
        else:
            yield name, known


def _class_of(name: str, known: Option, values: Mapping[str, Any]) -> Any:
    """Return the dataclass of a nested field, which the value of `NAME.kind` may select."""
    if not known.variants:
        return known.kind
    default = next(iter(known.variants.values()))
    return known.variants.get(str(values.get(f"{name}.kind")), default)


def _of_all_variants(known: Option) -> Iterator[tuple[str, Option]]:
    """Yield the fields of all variants of a field. The help says to which variants they belong."""
    by_variant = {name: dict(fields_of(kind)) for name, kind in known.variants.items()}
    for key in dict.fromkeys(key for fields in by_variant.values() for key in fields):
        found = {name: fields[key] for name, fields in by_variant.items() if key in fields}
        helps: dict[str, list[str]] = {}
        for name, field in found.items():
            helps.setdefault(field.help, []).append(name)
        first = next(iter(found.values()))
        if key == "kind":
            text = "; ".join(f"{name}: {field.help}" for name, field in found.items())
            any_of: Any = Literal[tuple(found)]
            first = first._replace(kind=any_of, help=text)
        elif len(found) < len(by_variant) or len(helps) > 1:
            text = "; ".join(f"with {' or '.join(names)}, {text}" for text, names in helps.items())
            first = first._replace(help=text)
        yield key, first


@functools.cache
def _options(kind: Any) -> dict[str, Option]:
    """Return the fields of a dataclass by name."""
    kinds = typing.get_type_hints(kind, include_extras=True)
    return {
        field.name: Option(kinds[field.name], field.default, **field.metadata)
        for field in dataclasses.fields(kind)
    }


def kinds_of(kind: Any) -> list[Any]:
    """Return the members of a union type, or the type itself, without annotations."""
    if get_origin(kind) is Annotated:
        return kinds_of(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return [inner for part in get_args(kind) for inner in kinds_of(part)]
    return [kind]


def _checked(name: str, value: Any, known: Option) -> Any:
    """Convert a value to its field's type, or raise an InputError with a one-line message."""
    try:
        return known.limits(_convert(value, known.kind))
    except InputError as error:
        raise InputError(f"{error}, got {short_repr(value)}", argument=name) from None


def _convert(value: Any, kind: Any) -> Any:
    """Convert a value to a type, or raise an InputError such as "must be an integer"."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        value = _convert(value, args[0])
        for check in args[1:]:
            value = check(value)
        return value
    if origin in (Union, types.UnionType):
        is_none = value is None or (isinstance(value, Word) and value == "null")
        if is_none and type(None) in args:
            return None
        *others, last = [arg for arg in args if arg is not type(None)]
        for other in others:
            with contextlib.suppress(InputError):
                return _convert(value, other)
        return _convert(value, last)
    if origin is Literal:
        if not isinstance(value, str) or value not in args:
            raise InputError(f"must be {_either(map(repr, args))}")
        return str(value)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise InputError("must be a list")
        inner = args[:1] * len(value) if args[-1] is ... else args
        if len(value) != len(inner):
            raise InputError(f"must be a list of length {len(inner)}")
        return tuple(map(_convert, value, inner))
    if kind in _NAMES:
        try:
            return _plain(value, kind)
        except (ValueError, OverflowError, KeyError):
            raise InputError(f"must be {_NAMES[kind]}") from None
    if not isinstance(value, kind):
        raise InputError(f"must be a {kind.__name__}")
    return value


def _plain(value: Any, kind: Any) -> Any:
    # The type is compared by name to avoid importing NumPy. NumPy 1 names its bool "bool_".
    is_bool = type(value).__name__ in ("bool", "bool_")
    is_word = isinstance(value, Word)
    if kind in (str, Path) and isinstance(value, (str, os.PathLike)):
        return kind(os.fspath(value))
    if kind is bool and (is_bool or is_word):
        return _SWITCHES[value.lower()] if is_word else bool(value)
    if kind is int and (is_word or (isinstance(value, numbers.Integral) and not is_bool)):
        return int(value)
    if kind is float and (is_word or (isinstance(value, numbers.Real) and not is_bool)):
        number = float(value)
        if math.isfinite(number):
            return number
    raise ValueError


_SWITCHES = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_NAMES: dict[Any, str] = {
    str: "text",
    Path: "a path",
    int: "an integer",
    float: "a finite number such as 0.5 or 1e9",
    bool: "true or false",
}
"""Mapping from types to their names in messages."""


def _either(names: Iterable[Any]) -> str:
    """Return names joined as `a, b or c`."""
    *names, last = names
    return f"{', '.join(names)} or {last}" if names else str(last)
