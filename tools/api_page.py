"""Write docs/api.md, which lists every public name with its signature: `python -m tools.api_page`.

A name is public if it is in the `__all__` of the package or of one of its folders. Run this command
after you change a signature or the first line of a docstring. A test checks that the page is up to
date.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import cs336_basics
from tools import experimental

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
WIDTH = 100
HEAD = """\
# The public interface

This page lists every public name with its signature and the first line of its docstring;
`help(NAME)` shows the rest. Names that are not listed here may change without notice, and those
marked as experimental may change in any minor version; see [what is stable](stability.md).
`tools/api_page.py` writes this page.
"""
EXPERIMENTAL = "**Experimental.** "


def render() -> str:
    """Return the page."""
    shown: set[int] = set()
    sections = [section for module in modules() for section in section_of(module, shown)]
    return "\n".join([HEAD, *sections])


@functools.cache
def modules() -> list[ModuleType]:
    """Return the folders with public names in workflow order, and then the package."""
    found = [
        importlib.import_module(name)
        for _, name, is_package in pkgutil.walk_packages(
            cs336_basics.__path__, f"{cs336_basics.__name__}."
        )
        if is_package
    ]
    order = (
        "text", "splitting", "counting", "bpe", "tokenizer", "formats", "data", "model",
        "generation",
    )  # fmt: skip
    found.sort(key=lambda m: next((i for i, n in enumerate(order) if f".{n}" in m.__name__), 99))
    return [*(module for module in found if hasattr(module, "__all__")), cs336_basics]


@functools.cache
def public_names() -> dict[int, str]:
    """Return the full name of each public function and class by id, in the folder that has it."""
    names: dict[int, str] = {}
    for module in modules():
        for name in module.__all__:
            names.setdefault(id(getattr(module, name)), f"{module.__name__}.{name}")
    return names


def section_of(module: ModuleType, shown: set[int]) -> Iterator[str]:
    """Yield the lines of a module. Names that were already shown are only listed."""
    yield f"## {module.__name__}\n"
    is_experimental = experimental.is_experimental(module.__name__)
    yield f"{EXPERIMENTAL if is_experimental else ''}{first_line(module)}\n"
    again = []
    for name in sorted(module.__all__, key=str.lower):
        value = getattr(module, name)
        if id(value) in shown:
            again.append(f"`{name}`")
            continue
        shown.add(id(value))
        yield from entry(f"{module.__name__}.{name}", value, shown)
    if again:
        yield f"Shown above: {', '.join(again)}.\n"


def entry(full_name: str, value: object, shown: set[int]) -> Iterator[str]:
    """Yield the lines of a public name."""
    module, _, name = full_name.rpartition(".")
    mark = ""
    if experimental.is_experimental(full_name) and not experimental.is_experimental(module):
        mark = EXPERIMENTAL
    yield f"### {name}\n"
    if not callable(value):
        names = f": {', '.join(map(str, value))}" if isinstance(value, dict) else ""
        yield f"{mark}A {type(value).__name__}{names}.\n"
        return
    yield f"```text\n{signature(name, value)}\n```\n"
    yield f"{mark}{first_line(value)}\n"
    if inspect.isclass(value):
        public = {} if experimental.is_experimental(full_name) else public_names()
        methods = []
        for call, member in methods_of(value, shown):
            is_marked = experimental.is_experimental_member(value, call.partition("(")[0], public)
            methods.append(f"- `{call}`: {EXPERIMENTAL * is_marked}{first_line(member)}")
        if methods:
            yield "\n".join(methods) + "\n"


def methods_of(cls: type, shown: set[int]) -> Iterator[tuple[str, object]]:
    """Yield the public methods and properties, except those shown for a base class."""
    bases = [base for base in cls.__mro__[1:] if id(base) in shown]
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        is_property = isinstance(member, property)
        # torch wraps an optimizer's `step` when the class is first used.
        function = inspect.unwrap(member.fget if is_property else getattr(cls, name, None))
        where = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
        if name.startswith("_") or not where.startswith(cs336_basics.__name__):
            continue
        if any(hasattr(base, name) for base in bases) and f".{cls.__name__}." not in where:
            continue
        if is_property:
            yield name, function
        elif inspect.isroutine(function) and inspect.getdoc(function):
            yield f"{name}{parameters(getattr(cls, name))}", function


def signature(name: str, value: Callable[..., object]) -> str:
    """Return a signature, split over several lines if it is long."""
    text = f"{name}{parameters(value)}"
    if len(text) <= WIDTH:
        return text
    given = given_to(value)
    lines = [str(parameter) for parameter in given.parameters.values()]
    by_name = [p.kind is p.KEYWORD_ONLY for p in given.parameters.values()]
    if any(by_name):
        lines.insert(by_name.index(True), "*")
    indented = (f"    {line}," for line in lines)
    return "\n".join([f"{name}(", *indented, str(given.replace(parameters=[]))[1:]])


def parameters(value: Callable[..., object]) -> str:
    """Return the parameters and the result type of a callable."""
    try:
        return str(given_to(value))
    except (TypeError, ValueError):  # a compiled function without a signature
        return "(...)"


class Annotation(str):
    """An annotation, shown without quotes."""

    def __repr__(self) -> str:
        return str(self)


def given_to(value: Callable[..., object]) -> inspect.Signature:
    """Return a signature without `self` and with short annotations."""
    given = inspect.signature(value)
    kept = [
        p.replace(annotation=short(p.annotation))
        for p in given.parameters.values()
        if p.name not in ("self", "cls")
    ]
    result = given.return_annotation
    if inspect.isclass(value):
        result = inspect.Signature.empty
    return given.replace(parameters=kept, return_annotation=short(result))


def short(annotation: object) -> object:
    """Return an annotation without module names."""
    if annotation is inspect.Signature.empty:
        return annotation
    annotation = getattr(annotation, "__forward_arg__", annotation)  # in a NamedTuple
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return Annotation(re.sub(r"\b[a-z]\w*(?:\.\w+)*\.(?=\w)", "", text))


def first_line(value: object) -> str:
    """Return the first line of a docstring."""
    return (inspect.getdoc(value) or "").partition("\n")[0]


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
    print(f"wrote {PAGE}")
