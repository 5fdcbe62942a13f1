"""Translate split patterns to and from the pre-tokenizers in Hugging Face's `tokenizer.json`.

Every step of a supported pre-tokenizer is a split or ByteLevel. Several splits become a sequence of
splits (see `splitting/patterns/split_sequences.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics.formats.foreign_patterns import (
    FALCON,
    PUNCTUATION,
    from_oniguruma,
    to_oniguruma,
)
from cs336_basics.formats.huggingface.parts import kind_of, steps_of
from cs336_basics.splitting.patterns import split_program
from cs336_basics.splitting.patterns.named_patterns import GPT2, pattern_name, resolve_pattern
from cs336_basics.splitting.patterns.pattern_limits import MAX_REPEAT
from cs336_basics.splitting.patterns.split_sequences import (
    BEHAVIORS,
    MAX_SPLITS,
    NO_SPLIT,
    PREFIX,
    Split,
    is_sequence,
    pattern_of_splits,
    splits_of,
)

# The three splitting steps of deepseek-ai/DeepSeek-V3. Our named pattern combines them.
_DEEPSEEK_V3 = (
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)

_WHITESPACE = Split(r"\w+|[^\w\s]+", "Removed", True)
"""What a Whitespace step does. It uses Rust's `regex` instead of Oniguruma; `\\w` means the same in
Rust's and Python's `regex`."""


def pre_tokenizer_of(pattern: str) -> dict[str, Any]:
    """Return a pre-tokenizer that splits text as a split pattern does.

    Raises:
        ValueError: See `to_oniguruma`. Also raised if the pattern splits text before it adds a
            space, and then splits it again.
    """
    expression = resolve_pattern(pattern)
    if is_sequence(pattern):
        splits = splits_of(pattern)
    else:
        splits = [] if expression == NO_SPLIT else [Split(expression)]
    use_regex = splits[-1:] == [Split(GPT2)]  # which is built into ByteLevel
    splits = splits[:-1] if use_regex else splits
    add_prefix_space = splits[-1:] == [PREFIX]
    splits = splits[:-1] if add_prefix_space else splits
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": add_prefix_space,
        "trim_offsets": True,
        "use_regex": use_regex,
    }
    if not splits:
        return byte_level
    return {"type": "Sequence", "pretokenizers": [*map(_step_of, splits), byte_level]}


def _step_of(split: Split) -> dict[str, Any]:
    if split == PREFIX:
        raise InputError("a space can be added only before the last step, ByteLevel")
    if split == _WHITESPACE:
        return {"type": "Whitespace"}
    return {
        "type": "Split",
        "pattern": {"Regex": to_oniguruma(split.expression)},
        "behavior": split.behavior,
        "invert": split.invert,
    }


def pattern_of(pre_tokenizer: Any) -> str:
    """Return a split pattern that splits text as a pre-tokenizer does.

    Raises:
        ValueError: If there is no such pattern.
    """
    steps = [] if pre_tokenizer is None else steps_of(pre_tokenizer, "pretokenizers")
    kinds = [step.get("type") for step in steps]
    if "ByteLevel" not in kinds:
        names = " and ".join(map(short_repr, kinds)) or "None"
        raise InputError(
            f"pre_tokenizer {names} is not supported: it does not convert text to bytes, as "
            "ByteLevel does"
        )
    if len(steps) > MAX_SPLITS:  # compiling them could take long
        raise InputError(
            f"the pre_tokenizer must have at most {MAX_SPLITS} steps, got {len(steps):,}"
        )
    ordered = _characters_first(steps)
    splits = [split for step in ordered for split in _splits_of_step(step)]
    if all(split.behavior == "Isolated" for split in splits):
        # Files contain line endings either as escapes or as literal characters.
        expressions = tuple(
            split.expression.replace("\r", r"\r").replace("\n", r"\n") for split in splits
        )
        if expressions == _DEEPSEEK_V3:
            return "deepseek-v3"
    pattern = pattern_of_splits(splits)
    if ordered is not steps and pattern != FALCON:
        raise _splits_bytes(steps)
    return pattern_name(pattern) or pattern


def _characters_first(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the steps in an order that splits characters, not bytes.

    ByteLevel writes text in GPT-2's byte alphabet. Steps after it split this text, so they can
    divide a character. Only Falcon's pre-tokenizer, whose steps look for digits, has such steps;
    `parse_tokenizer_json` checks that its merges make no difference.
    """
    kinds = [step.get("type") for step in steps]
    if steps[-1] is steps[kinds.index("ByteLevel")]:
        return steps
    if kinds == ["Punctuation", "ByteLevel", "Digits", "Split"] and not steps[2].get(
        "individual_digits"
    ):
        digits = {"type": "Split", "pattern": {"Regex": "[0-9]+"}, "behavior": "Isolated"}
        return [*steps[:2], digits, steps[3]]
    raise _splits_bytes(steps)


def _splits_bytes(steps: list[dict[str, Any]]) -> InputError:
    kinds = [step.get("type") for step in steps]
    after = steps[kinds.index("ByteLevel") + 1]
    return InputError(
        f"pre_tokenizer {kind_of(after)} after ByteLevel is not supported: it would split bytes"
    )


_CANNOT = {
    "Metaspace": "it replaces spaces with U+2581, so the ids would be for other bytes",
    "UnicodeScripts": "it splits text where the script changes, by a table of its own",
}
"""Steps that this library does not have, with the reason."""


def _splits_of_step(step: dict[str, Any]) -> Iterator[Split]:
    """Yield the splits that a step makes."""
    kind = step.get("type")
    if kind == "ByteLevel":
        if _flag(step, "add_prefix_space", False):
            yield PREFIX
        if _flag(step, "use_regex", True):
            yield Split(GPT2)
    elif kind == "Digits":
        yield Split(r"\p{N}" if _flag(step, "individual_digits", False) else r"\p{N}+")
    elif kind == "Punctuation":
        behavior = _behavior(step.get("behavior", "Isolated"))
        if behavior == "Contiguous":  # as the next step of Falcon's pre-tokenizer expects
            yield Split(f"{PUNCTUATION}+")
        else:
            yield Split(PUNCTUATION, behavior)
    elif kind == "Whitespace":
        yield _WHITESPACE
    elif kind in ("WhitespaceSplit", "BertPreTokenizer"):
        yield Split(r"\s", "Removed")
        if kind == "BertPreTokenizer":
            yield Split(PUNCTUATION)
    elif kind == "CharDelimiterSplit":
        delimiter = step.get("delimiter")
        if not isinstance(delimiter, str) or len(delimiter) != 1:
            raise InputError(f"delimiter must be one character, got {short_repr(delimiter)}")
        yield Split(_literal(delimiter), "Removed")
    elif kind == "FixedLength":
        length = step.get("length", 5)
        if type(length) is not int or not 0 < length <= MAX_REPEAT:
            raise InputError(
                f"length must be an integer from 1 to {MAX_REPEAT:,}, got {short_repr(length)}"
            )
        yield Split(rf"[\s\S]{{1,{length}}}")
    elif kind == "Split":
        yield _split_of(step)
    else:
        reason = f": {_CANNOT[kind]}" if isinstance(kind, str) and kind in _CANNOT else ""
        raise InputError(f"pre_tokenizer {kind_of(step)} is not supported{reason}")


def _flag(step: dict[str, Any], name: str, default: bool) -> bool:
    value = step.get(name, default)
    if not isinstance(value, bool):
        raise InputError(f"{name} must be true or false, got {short_repr(value)}")
    return value


def _behavior(value: Any) -> str:
    if value not in (*BEHAVIORS, "Removed"):
        raise InputError(
            f"pre_tokenizer must have one of the behaviors {', '.join(BEHAVIORS)} and Removed, got "
            f"{short_repr(value)}"
        )
    return str(value)


def _literal(text: str) -> str:
    """Return an expression that matches a text. It is never the name of a pattern."""
    escaped = re.sub(r"[\\^$.|?*+(){}\[\]]", r"\\\g<0>", text)
    return escaped if re.search(r"[\\^$|?*+()\[\]{}]", escaped) else f"(?:{escaped})"


def _split_of(step: dict[str, Any]) -> Split:
    """Return the split of a Split step, in the syntax of this library."""
    pattern, invert = step.get("pattern"), _flag(step, "invert", False)
    (kind, text), *more = (
        pattern.items() if isinstance(pattern, dict) and pattern else [(None, None)]
    )
    if kind not in ("Regex", "String") or not isinstance(text, str) or not text or more:
        raise InputError(
            f"pre_tokenizer Split must have a Regex or a String, got {short_repr(pattern)}"
        )
    if kind == "String" or not re.search(r"[\\^$|?*+()\[\]{}]", text):
        text = _literal(text) if kind == "String" else f"(?:{text})"  # not the name of a pattern
    expression = resolve_pattern(from_oniguruma(text))
    behavior = _behavior(step.get("behavior"))
    if behavior == "Removed" and invert:
        program = split_program.find_program(expression)
        if program is not None and program.matches_all_text:
            return Split(expression)  # nothing is removed
    # Isolating the text between matches gives the same pieces as isolating the matches.
    return Split(expression, behavior, invert and behavior != "Isolated")
