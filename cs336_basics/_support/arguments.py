"""Checks of arguments that many functions share."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any, TypeVar, cast

from cs336_basics._support.messages import nearest, short_repr

F = TypeVar("F", bound=Callable[..., Any])

MAX_INT64 = 2**63 - 1

MOST_THREADS = 4096
"""The largest `num_workers` of a command: far more threads end the process without a message."""


def checked_integer(
    name: str, value: Any, smallest: int, largest: int | None = None, note: str = ""
) -> int:
    """Return an argument as a plain int: an int or a NumPy integer.

    Args:
        name: of the argument, for the message.
        value: what was passed.
        smallest, largest: its limits; None: no limit.
        note: the end of messages about the limits: " bytes", ", or None (all cores)".

    Raises:
        TypeError: it is a bool, a float or something else.
        ValueError: it is outside the limits.
    """
    # NumPy 2 calls its bool "bool", NumPy 1 "bool_": recognized without importing NumPy.
    if type(value).__name__ in ("bool", "bool_"):
        raise TypeError(f"{name} is {value!r}: it must be an int")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {short_repr(value)}: it must be an int") from None
    if number < smallest:
        raise ValueError(f"{name} is {short_repr(number)}: it must be at least {smallest}{note}")
    if largest is not None and number > largest:
        raise ValueError(f"{name} is {short_repr(number)}: it must be at most {largest}{note}")
    return number


def names_the_nearest(function: F) -> F:
    """Return a function whose error about an unknown keyword argument names the nearest one.

    Python itself does so from 3.13 on.
    """
    known = [name for name in inspect.signature(function).parameters if name != "self"]

    @functools.wraps(function)
    def checked(*arguments: Any, **options: Any) -> Any:
        for name in options:
            if name not in known:
                raise TypeError(f"{short_repr(name)} is not an argument{nearest(name, known)}")
        return function(*arguments, **options)

    return cast(F, checked)
