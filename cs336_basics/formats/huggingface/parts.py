"""Read the parts of a `tokenizer.json`, which nobody has checked."""

from __future__ import annotations

from typing import Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr


def steps_of(part: Any, key: str) -> list[dict[str, Any]]:
    """Return the steps of a part: the items of a Sequence and of Sequences in it, or the part.

    Args:
        part: A normalizer, pre-tokenizer, post-processor or decoder.
        key: Key of the items in a Sequence, such as "normalizers".

    Raises:
        ValueError: If a step is not an object, or a Sequence has no list of steps.
    """
    steps: list[dict[str, Any]] = []
    waiting = [part]
    while waiting:
        step = waiting.pop()
        if not isinstance(step, dict):
            raise InputError(f"each of the {key} must be an object, got {short_repr(step)}")
        if step.get("type") == "Sequence":
            waiting += reversed(list_in(step, key))
        else:
            steps.append(step)
    return steps


def list_in(parent: dict[str, Any], key: str, default: list[Any] | None = None) -> list[Any]:
    """Return a list from an object in the file, or the default if the list is missing or null.

    Raises:
        ValueError: If the value is not a list, or is missing and there is no default.
    """
    value = parent.get(key)
    value = default if value is None else value
    if not isinstance(value, list):
        raise InputError(f"{key!r} must be a list, got {short_repr(value)}")
    return value


def object_in(parent: dict[str, Any], key: str) -> dict[str, Any]:
    """Return an object from an object in the file.

    Raises:
        ValueError: If the value is not an object.
    """
    value = parent.get(key)
    if not isinstance(value, dict):
        raise InputError(f"{key!r} must be an object, got {short_repr(value)}")
    return value


def kind_of(value: Any) -> str:
    """Return the type of a part of the file, or the part if it has none, for error messages."""
    return short_repr(value.get("type", value) if isinstance(value, dict) else value)
