"""Pre-tokenizers of Hugging Face's `tokenizer.json`, and the split patterns that do the same."""

from __future__ import annotations

from typing import Any

from cs336_basics._support.messages import short_repr
from cs336_basics.formats.foreign_patterns import (
    GPT2_NUMBERS,
    GPT2_SINGLE_DIGITS,
    from_oniguruma,
    to_oniguruma,
)
from cs336_basics.pretokenization.patterns.named_patterns import GPT2, pattern_name, resolve_pattern

# The three steps of deepseek-ai/DeepSeek-V3, which our one expression unites.
_DEEPSEEK_V3 = [
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]


def pre_tokenizer_of(pattern: str) -> dict[str, Any]:
    """Return the pre-tokenizer that splits as our pattern does.

    Raises:
        ValueError: see `to_oniguruma`.
    """
    expression = resolve_pattern(pattern)
    if expression == GPT2:  # ByteLevel has it built in
        return _byte_level(use_regex=True)
    if pattern_name(pattern):
        split = {"behavior": "Isolated", "invert": False}
    else:  # what the pattern does not match is dropped, as ours is
        split = {"behavior": "Removed", "invert": True}
    return {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": to_oniguruma(pattern)}, **split},
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
    """Return the split pattern of a pre-tokenizer.

    Raises:
        ValueError: no pattern is known that does the same; says why.
    """
    unknown = (
        f"its pre_tokenizer ({kind_of(pre_tokenizer)}) is unknown: ByteLevel, one Split and "
        "ByteLevel, Digits and ByteLevel, or that of DeepSeek-V3 can be loaded"
    )
    steps = [pre_tokenizer]
    if isinstance(pre_tokenizer, dict) and pre_tokenizer.get("type") == "Sequence":
        steps = list_in(pre_tokenizer, "pretokenizers")
    if not steps or not all(isinstance(step, dict) for step in steps):
        raise ValueError(unknown)
    *before, last = steps
    if last.get("type") != "ByteLevel":
        raise ValueError(unknown)
    if last.get("add_prefix_space"):
        raise ValueError("its pre_tokenizer adds a space before the text, which is not supported")
    types = [step.get("type") for step in before]
    if last.get("use_regex", True):
        if types == ["Digits"]:
            return GPT2_SINGLE_DIGITS if before[0].get("individual_digits") else GPT2_NUMBERS
        if before:
            raise ValueError("its pre_tokenizer splits twice, which is not supported")
        return "gpt2"
    if not before:
        raise ValueError("its pre_tokenizer does not split text at all, which is not supported")
    if any(kind != "Split" for kind in types):
        raise ValueError(unknown)
    found = [_expression_of(step) for step in before]
    if len(found) == 1:
        return from_oniguruma(found[0][0], keeps_rest=found[0][1])
    # (Line ends may be written as themselves.)
    escaped = [expression.replace("\r", r"\r").replace("\n", r"\n") for expression, _ in found]
    if escaped == _DEEPSEEK_V3 and all(isolated for _, isolated in found):
        return "deepseek-v3"
    raise ValueError(unknown)


def _expression_of(split: dict[str, Any]) -> tuple[str, bool]:
    """Return the regular expression of a Split, and whether it keeps what that does not match."""
    pattern = split.get("pattern")
    expression = pattern.get("Regex") if isinstance(pattern, dict) and len(pattern) == 1 else None
    how = (split.get("behavior"), split.get("invert", False))
    if not isinstance(expression, str) or how not in (("Isolated", False), ("Removed", True)):
        raise ValueError(
            f"its pre_tokenizer splits at {short_repr(pattern)} with behavior "
            f"{short_repr(how[0])}, invert {short_repr(how[1])}: a Regex that is Isolated, or "
            "Removed and inverted, can be loaded"
        )
    return expression, how[0] == "Isolated"


def list_in(parent: dict[str, Any], key: str, default: list[Any] | None = None) -> list[Any]:
    """Return a list that an object of the file holds; the default, where it holds none.

    Raises:
        ValueError: it is absent without a default, or not a list.
    """
    value = parent.get(key)
    value = default if value is None else value
    if not isinstance(value, list):
        raise ValueError(f"its {key!r} is {short_repr(value)}, not a list")
    return value


def kind_of(value: Any) -> str:
    """Return the type that a part of the file names, for messages."""
    return short_repr(value.get("type")) if isinstance(value, dict) else short_repr(value)
