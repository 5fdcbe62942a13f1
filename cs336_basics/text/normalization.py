"""Unicode normalization, the stage between repairing a text and cutting out added tokens."""

from __future__ import annotations

import unicodedata

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr

NORMALIZERS = ("NFC", "NFD", "NFKC", "NFKD")
"""The normalization forms (Unicode Standard Annex 15)."""


def check_normalizer(normalizer: str | None) -> str | None:
    """Return `normalizer` if it is None or one of NORMALIZERS.

    Raises:
        ValueError: If it is something else.
    """
    if normalizer is not None and normalizer not in NORMALIZERS:
        raise InputError(
            f"must be None or one of {', '.join(NORMALIZERS)}, got {short_repr(normalizer)}",
            argument="normalizer",
        )
    return normalizer


def normalized(text: str, normalizer: str | None) -> str:
    """Return a text in a normalization form, or the text itself if `normalizer` is None."""
    return text if normalizer is None else unicodedata.normalize(normalizer, text)
