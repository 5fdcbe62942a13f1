"""Check the truncation and the padding of a `tokenizer.json`."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from cs336_basics._support.arguments import MAX_INT64
from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.vocabularies import MAX_ID
from cs336_basics.formats.huggingface.parts import object_in
from cs336_basics.tokenizer.length_settings import LengthSettings

_DIRECTIONS = ("Right", "Left")
_STRATEGIES = ("LongestFirst", "OnlyFirst", "OnlySecond")


def length_settings_of(
    content: dict[str, Any], ignored: Container[str] = ()
) -> LengthSettings | None:
    """Return the truncation and the padding of a file, or None if it has neither.

    tokenizers needs the same fields, and keeps no others.

    Args:
        content: Content of the file.
        ignored: Keys to ignore.

    Raises:
        ValueError: If they are malformed.
    """
    found = LengthSettings(
        *(
            None if key in ignored or content.get(key) is None else object_in(content, key)
            for key in LengthSettings._fields
        )
    )
    for key, settings in zip(LengthSettings._fields, found, strict=True):
        given = _DEFAULTS[key] | (settings or {})
        for field, is_right in _FIELDS[key].items():
            value = given.get(field)
            if settings is not None and not is_right(value):
                raise InputError(
                    f"the {field} of the {key} cannot be {short_repr(value)}",
                    remedy=(
                        "pass ",
                        Argument("ignore", [key]),
                        " to load the tokenizer without it",
                    ),
                )
    return None if found == LengthSettings() else found


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_INT64


def _is_id(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_ID


def _is_padding_strategy(value: Any) -> bool:
    if isinstance(value, dict):
        return [*value] == ["Fixed"] and _is_size(value["Fixed"])
    return bool(value == "BatchLongest")


_DEFAULTS: dict[str, dict[str, Any]] = {"truncation": {"direction": "Right"}, "padding": {}}
"""The fields that may be missing."""

_FIELDS = {
    "truncation": {
        "max_length": _is_size,
        "stride": _is_size,
        "strategy": _STRATEGIES.__contains__,
        "direction": _DIRECTIONS.__contains__,
    },
    "padding": {
        "strategy": _is_padding_strategy,
        "direction": _DIRECTIONS.__contains__,
        "pad_to_multiple_of": lambda value: value is None or _is_size(value),
        "pad_id": _is_id,
        "pad_type_id": _is_id,
        "pad_token": lambda value: isinstance(value, str),
    },
}
"""The fields that tokenizers reads, and functions that check a value."""
