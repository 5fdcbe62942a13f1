"""Names and modules that load on first use.

Reading a configuration or printing a help page does not import torch, which takes seconds to import
and may not be installed. The native trainer does not import NumPy, because the import can take
longer than training. Encoding a text to a list of ids needs neither NumPy nor `regex`, and imports
only what it uses: importing them takes longer than loading GPT-2's vocabulary
(`benchmarks/encoding/first_call.py`).
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

__all__ = ["LazyModule", "lazy_modules", "lazy_names", "needed_for", "np", "npt"]


class LazyModule:
    """A module that is imported when one of its names is first accessed.

    Type checkers need an ordinary import under `if TYPE_CHECKING`.
    """

    def __init__(self, name: str) -> None:
        self._module_name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._module_name), name)
        setattr(self, name, value)  # later accesses bypass __getattr__
        return value


def lazy_modules(package: str, names: str) -> list[Any]:
    """Return a LazyModule for each of some modules of a package.

    Args:
        package: Name of the package.
        names: Names of the modules, separated by spaces.
    """
    return [LazyModule(f"{package}.{name}") for name in names.split()]


if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np, npt = LazyModule("numpy"), LazyModule("numpy.typing")


@contextlib.contextmanager
def needed_for(what: str, install: str) -> Iterator[None]:
    """Let an ImportError from the `with` block say what needs the package.

    Args:
        what: Start of the message, such as "GGUF".
        install: Arguments of `pip install`.
    """
    try:
        yield
    except ImportError as error:
        from cs336_basics._support.errors import UnavailableError

        missing = UnavailableError(
            f"{what} needs {error.name or error}", remedy=f"run pip install {install}"
        )
        missing.name = error.name
        raise missing from error


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package (PEP 562).

    Args:
        package: Name of the package.
        modules: Mapping from modules to their public names, separated by spaces.
    """
    module_of = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(module_of[name]), name)
        vars(importlib.import_module(package))[name] = value
        return value

    def names() -> list[str]:
        return sorted({*vars(importlib.import_module(package)), *module_of})

    return get, names
