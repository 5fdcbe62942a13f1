"""A field of a configuration dataclass: its default value and its line in `--help`."""

from __future__ import annotations

from dataclasses import field
from typing import Any


def option(default: Any, description: str) -> Any:
    """Return a dataclass field with a default value and the line that `--help` shows for it."""
    return field(default=default, metadata={"help": description})
