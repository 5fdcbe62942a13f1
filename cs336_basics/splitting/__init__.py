"""Splitting text into pre-tokens, the units that BPE merges within."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cs336_basics._support.arguments import check_choice
from cs336_basics._support.errors import InputError
from cs336_basics._support.lazy import lazy_names
from cs336_basics._support.messages import short_repr

__all__ = [
    "PATTERNS",
    "SPLITTINGS",
    "Splitter",
    "check_special_tokens",
    "check_splitting",
    "pattern_of_superwords",
    "pretokenize",
    "resolve_pattern",
    "split_special_tokens",
]

if TYPE_CHECKING:
    from cs336_basics.splitting.patterns.named_patterns import PATTERNS, resolve_pattern
    from cs336_basics.splitting.patterns.superwords import pattern_of_superwords
    from cs336_basics.splitting.splitter import (
        Splitter,
        check_special_tokens,
        pretokenize,
        split_special_tokens,
    )
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "cs336_basics.splitting.patterns.named_patterns": "PATTERNS resolve_pattern",
            "cs336_basics.splitting.patterns.superwords": "pattern_of_superwords",
            "cs336_basics.splitting.splitter": (
                "Splitter check_special_tokens pretokenize split_special_tokens"
            ),
        },
    )

SPLITTINGS = ("regex", "compiled")
"""Ways to split text into pre-tokens: with the `regex` module, or with compiled code."""


def check_splitting(splitting: str | None) -> None:
    """Raise ValueError if `splitting` is neither a name in SPLITTINGS nor None."""
    if splitting is not None:
        check_choice("splitting", splitting, SPLITTINGS, ", or None")
