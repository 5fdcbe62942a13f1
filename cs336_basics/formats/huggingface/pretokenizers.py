"""Translate split patterns to and from the pre-tokenizers in Hugging Face's `tokenizer.json`."""

from __future__ import annotations

from typing import Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics.formats.foreign_patterns import (
    GPT2_NUMBERS,
    GPT2_SINGLE_DIGITS,
    from_oniguruma,
    matching_all_text,
    to_oniguruma,
)
from cs336_basics.splitting.patterns.named_patterns import GPT2, resolve_pattern

# The three splitting steps of deepseek-ai/DeepSeek-V3. Our named pattern combines them.
_DEEPSEEK_V3 = [
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]


def pre_tokenizer_of(pattern: str) -> dict[str, Any]:
    """Return a pre-tokenizer that splits text as a split pattern does.

    Raises:
        ValueError: See `to_oniguruma`.
    """
    expression = resolve_pattern(pattern)
    if expression == GPT2:  # built into ByteLevel
        return _byte_level(use_regex=True)
    split = {"type": "Split", "pattern": {"Regex": to_oniguruma(pattern)}}
    return {
        "type": "Sequence",
        "pretokenizers": [
            {**split, "behavior": "Isolated", "invert": False},
            _byte_level(use_regex=False),
        ],
    }


def _byte_level(use_regex: bool) -> dict[str, Any]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": use_regex,
    }


def pattern_of(pre_tokenizer: Any) -> str:
    """Return a split pattern that splits text as a pre-tokenizer does.

    Raises:
        ValueError: If there is no such pattern.
    """
    unknown = (
        f"unknown pre_tokenizer {kind_of(pre_tokenizer)}; it must be ByteLevel, alone or after one "
        "Split or Digits, or the pre_tokenizer of DeepSeek-V3"
    )
    steps = [pre_tokenizer]
    if isinstance(pre_tokenizer, dict) and pre_tokenizer.get("type") == "Sequence":
        steps = list_in(pre_tokenizer, "pretokenizers")
    if not steps or not all(isinstance(step, dict) for step in steps):
        raise InputError(unknown)
    *before, last = steps
    if last.get("type") != "ByteLevel":
        raise InputError(unknown)
    if last.get("add_prefix_space"):
        raise InputError("the pre_tokenizer adds a space before the text, which is not supported")
    types = [step.get("type") for step in before]
    if last.get("use_regex", True):
        if types == ["Digits"]:
            return GPT2_SINGLE_DIGITS if before[0].get("individual_digits") else GPT2_NUMBERS
        if before:
            raise InputError("the pre_tokenizer splits twice, which is not supported")
        return "gpt2"
    if not before:
        raise InputError("the pre_tokenizer does not split text, which is not supported")
    if any(kind != "Split" for kind in types):
        raise InputError(unknown)
    found = [_expression_of(step) for step in before]
    if len(found) == 1:
        ((expression, isolated),) = found
        pattern = from_oniguruma(expression)
        return pattern if isolated else matching_all_text(pattern, "the pre_tokenizer drops")
    # Files contain line endings either as escapes or as literal characters.
    escaped = [expression.replace("\r", r"\r").replace("\n", r"\n") for expression, _ in found]
    if escaped == _DEEPSEEK_V3 and all(isolated for _, isolated in found):
        return "deepseek-v3"
    raise InputError(unknown)


def _expression_of(split: dict[str, Any]) -> tuple[str, bool]:
    """Return the regular expression of a Split, and whether text that does not match is kept."""
    pattern = split.get("pattern")
    expression = pattern.get("Regex") if isinstance(pattern, dict) and len(pattern) == 1 else None
    how = (split.get("behavior"), split.get("invert", False))
    if not isinstance(expression, str) or how not in (("Isolated", False), ("Removed", True)):
        raise InputError(
            f"the pre_tokenizer splits at {short_repr(pattern)} with behavior "
            f"{short_repr(how[0])} and invert {short_repr(how[1])}; it must split at a Regex, "
            "either with behavior Isolated, or with behavior Removed and invert true"
        )
    return expression, how[0] == "Isolated"


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


def kind_of(value: Any) -> str:
    """Return the type of a part of the file, or the part if it has none, for error messages."""
    return short_repr(value.get("type", value) if isinstance(value, dict) else value)
