"""Argument checks shared by many functions."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.messages import nearest, short_repr

MAX_INT64 = 2**63 - 1

MOST_THREADS = 4096
"""Maximum `num_workers` of a command. With far more threads, the process dies without a message."""


def checked_bool(name: str, value: Any) -> bool:
    """Return `value` if it is True or False. Other values, such as "no", raise InputTypeError."""
    if not isinstance(value, bool):
        raise InputTypeError(f"must be True or False, got {short_repr(value)}", argument=name)
    return value


def checked_integer(
    name: str,
    value: Any,
    smallest: int | None,
    largest: int | None = None,
    note: str = "",
    place: str = "",
) -> int:
    """Check that `value` is an integer within the limits, and return it as an int.

    Args:
        name: Name of the argument.
        value: Value of the argument.
        smallest, largest: Inclusive limits, or None for no limit.
        note: Text that follows the limit in messages, such as " bytes" or ", or None (all cores)".
        place: Where the value is, if the argument holds several.

    Raises:
        InputTypeError: If the value is not an integer. Bools are also rejected.
        InputError: If the value is outside the limits.
    """
    # The type is compared by name to avoid importing NumPy. NumPy 1 names its bool "bool_".
    if type(value).__name__ in ("bool", "bool_"):
        raise InputTypeError(f"must be an int, got {value!r}", argument=name, place=place)
    try:
        number = operator.index(value)
    except TypeError:
        raise InputTypeError(
            f"must be an int, got {short_repr(value)}", argument=name, place=place
        ) from None
    if smallest is not None and number < smallest:
        problem = f"must be at least {smallest}{note}, got {short_repr(number)}"
        raise InputError(problem, argument=name, place=place)
    if largest is not None and number > largest:
        problem = f"must be at most {largest}{note}, got {short_repr(number)}"
        raise InputError(problem, argument=name, place=place)
    return number


def check_is_number(name: str, value: Any) -> None:
    """Raise InputTypeError if the argument called `name` is not a real number, or is a bool."""
    from numbers import Real  # tokenizers do not need it

    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputTypeError(f"must be a number, got {short_repr(value)}", argument=name)


def check_choice(name: str, value: object, choices: Iterable[str], note: str = "") -> None:
    """Raise InputError if the argument called `name` is not one of the choices.

    Args:
        name: Name of the argument.
        value: Value of the argument, of any type.
        choices: The names to choose from.
        note: Text that follows the choices in the message, such as ", or None".
    """
    known = list(choices)
    if not isinstance(value, str):  # an array would be compared with each name
        kind: type[InputError] = InputTypeError
        near = ""
    elif value in known:
        return
    else:
        kind, near = InputError, nearest(value, known)
    raise kind(
        f"must be one of {', '.join(known)}{note}, got {short_repr(value)}{near}", argument=name
    )


def utf8_of(name: str, text: str) -> bytes:
    """Return the UTF-8 bytes of the argument called `name`.

    Raises:
        InputError: If it contains a lone surrogate, which UTF-8 cannot represent.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"must not contain a lone surrogate, got {short_repr(text)}", argument=name
        ) from None


def check_is_iterable(name: str, value: object, of: str) -> None:
    """Raise TypeError if the argument called `name` is not iterable or is a single text."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise InputTypeError(f"must be a list of {of}, got {short_repr(value)}", argument=name)
