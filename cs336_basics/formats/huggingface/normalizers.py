"""Translate a `tokenizer.json`'s normalizer to the name of a normalization form, and back."""

from __future__ import annotations

from typing import Any

from cs336_basics._support.errors import Argument, InputError
from cs336_basics.formats.huggingface.parts import kind_of, steps_of

_FORMS = ("NFC", "NFD", "NFKC", "NFKD")


def normalizer_of(content: Any) -> str | None:
    """Return the normalization form that a normalizer applies, or None if it changes nothing.

    Raises:
        ValueError: If the normalizer changes the text in another way.
    """
    if content is None:
        return None
    kinds = [step.get("type") for step in steps_of(content, "normalizers")]
    for kind in kinds:
        if kind not in _FORMS:
            raise InputError(
                f"normalizer {kind_of({'type': kind})} is not supported: the text would be changed "
                f"before it is split; only {', '.join(_FORMS)} are supported",
                remedy=(
                    "pass ",
                    Argument("ignore", ["normalizer"]),
                    " to load the tokenizer without it",
                ),
            )
    if len(kinds) > 1:
        raise InputError(
            f"the normalizer applies {' and '.join(map(str, kinds))}; only one is supported"
        )
    return kinds[0] if kinds else None


def normalizer_json(normalizer: str | None) -> dict[str, str] | None:
    """Return the JSON of a normalization form."""
    return None if normalizer is None else {"type": normalizer}
