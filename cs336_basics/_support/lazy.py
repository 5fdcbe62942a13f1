"""Names and modules that load on first use.

A configuration can then be read, and a help page printed, without importing torch, which takes
seconds and need not be installed; and a vocabulary is trained natively without importing NumPy,
which can take longer than the training.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


class LazyModule:
    """Stands for a module that is imported when one of its names is first used.

    Type checkers need the ordinary import, under `if TYPE_CHECKING`.
    """

    def __init__(self, name: str) -> None:
        self._module_name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._module_name), name)
        setattr(self, name, value)  # found there from now on, as fast as in a module
        return value


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package (PEP 562).

    Args:
        package: its name.
        modules: module -> the public names that it holds, separated by spaces.
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
