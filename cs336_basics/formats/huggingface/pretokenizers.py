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
    FALCON_STEPS,
    GPT2_NUMBERS,
    GPT2_SINGLE_DIGITS,
    PUNCTUATION,
    from_oniguruma,
    matching_all_text,
    to_oniguruma,
)
from cs336_basics.formats.huggingface.parts import kind_of, steps_of
from cs336_basics.splitting.patterns.named_patterns import GPT2, pattern_name, resolve_pattern
from cs336_basics.splitting.patterns.split_sequences import (
    BEHAVIORS,
    MAX_SPLITS,
    Split,
    is_sequence,
    sequence_pattern,
    splits_of,
)

NO_SPLIT = r"[\s\S]+"
"""The pattern of a tokenizer that does not split text: all of it is one pre-token."""

# The three splitting steps of deepseek-ai/DeepSeek-V3. Our named pattern combines them.
_DEEPSEEK_V3 = (
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)

_COMBINED = {
    _DEEPSEEK_V3: "deepseek-v3",
    (r"\p{N}", GPT2): GPT2_SINGLE_DIGITS,
    (r"\p{N}+", GPT2): GPT2_NUMBERS,
    FALCON_STEPS: FALCON,
}
"""Mapping from the expressions of isolating splits, in Oniguruma's syntax, to one pattern that does
the same."""


def pre_tokenizer_of(pattern: str) -> dict[str, Any]:
    """Return a pre-tokenizer that splits text as a split pattern does.

    Raises:
        ValueError: See `to_oniguruma`.
    """
    expression = resolve_pattern(pattern)
    if expression == GPT2:  # built into ByteLevel
        return _byte_level(use_regex=True)
    if expression == NO_SPLIT:
        return _byte_level(use_regex=False)
    splits = splits_of(pattern) if is_sequence(pattern) else [Split(expression)]
    return {
        "type": "Sequence",
        "pretokenizers": [
            *(
                {
                    "type": "Split",
                    "pattern": {"Regex": to_oniguruma(split.expression)},
                    "behavior": split.behavior,
                    "invert": split.invert,
                }
                for split in splits
            ),
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
    steps = [] if pre_tokenizer is None else steps_of(pre_tokenizer, "pretokenizers")
    kinds = [step.get("type") for step in steps]
    if "ByteLevel" not in kinds:
        names = " and ".join(map(short_repr, kinds)) or "None"
        raise InputError(
            f"pre_tokenizer {names} is not supported: it does not convert text to bytes, as "
            "ByteLevel does"
        )
    splits = [split for step in _characters_first(steps) for split in _splits_of_step(step)]
    if not splits:
        return NO_SPLIT
    if all(split.behavior == "Isolated" for split in splits):
        # Files contain line endings either as escapes or as literal characters.
        expressions = tuple(
            split.expression.replace("\r", r"\r").replace("\n", r"\n") for split in splits
        )
        if combined := _COMBINED.get(expressions):
            return combined
    if len(splits) > MAX_SPLITS:  # compiling them could take long
        raise InputError(
            f"the pre_tokenizer must have at most {MAX_SPLITS} splits, got {len(splits):,}"
        )
    splits = [_translated(split) for split in splits]
    if len(splits) == 1 and splits[0].behavior == "Isolated":
        return pattern_name(splits[0].expression) or splits[0].expression
    return sequence_pattern(splits)


def _characters_first(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the steps in an order in which they split characters, not bytes.

    ByteLevel writes text in GPT-2's byte alphabet. Steps after it split this text, so they can
    divide a character. Only Falcon's pre-tokenizer, whose steps look for digits, has such steps;
    `parse_tokenizer_json` checks that its merges make no difference.
    """
    kinds = [step.get("type") for step in steps]
    after = steps[kinds.index("ByteLevel") + 1 :]
    if not after:
        return steps
    if kinds == ["Punctuation", "ByteLevel", "Digits", "Split"] and not after[0].get(
        "individual_digits"
    ):
        digits = {"type": "Split", "pattern": {"Regex": "[0-9]+"}, "behavior": "Isolated"}
        return [*steps[:2], digits, after[1]]
    raise InputError(
        f"pre_tokenizer {kind_of(after[0])} after ByteLevel is not supported: it would split bytes"
    )


def _splits_of_step(step: dict[str, Any]) -> Iterator[Split]:
    """Yield the split that a step makes, if it makes one, in Oniguruma's syntax."""
    kind = step.get("type")
    if kind == "ByteLevel":
        if step.get("add_prefix_space"):
            raise InputError(
                "pre_tokenizer ByteLevel with add_prefix_space is not supported: it adds a space "
                "to the text",
                remedy="set add_prefix_space to false in the file, and start each text with a "
                "space yourself",
            )
        if step.get("use_regex", True):
            yield Split(GPT2)
    elif kind == "Digits":
        yield Split(r"\p{N}" if step.get("individual_digits") else r"\p{N}+")
    elif kind == "Punctuation":
        behavior = step.get("behavior", "Isolated")
        if behavior == "Contiguous":  # as the next step of Falcon's pre-tokenizer expects
            yield Split(f"{PUNCTUATION}+")
        else:
            yield Split(PUNCTUATION, behavior)
    elif kind == "Split":
        yield _split_of(step)
    else:
        drops = ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "CharDelimiterSplit")
        reason = ": it drops characters, so ids could not be decoded to the text"
        raise InputError(
            f"pre_tokenizer {kind_of(step)} is not supported{reason if kind in drops else ''}"
        )


def _split_of(step: dict[str, Any]) -> Split:
    """Return the split of a Split step."""
    pattern, invert = step.get("pattern"), step.get("invert", False)
    (kind, text), *more = (
        pattern.items() if isinstance(pattern, dict) and pattern else [(None, None)]
    )
    if kind not in ("Regex", "String") or not isinstance(text, str) or not text or more:
        raise InputError(
            f"pre_tokenizer Split must have a Regex or a String, got {short_repr(pattern)}"
        )
    if not isinstance(invert, bool):
        raise InputError(f"invert must be true or false, got {short_repr(invert)}")
    if kind == "String":
        text = re.sub(r"[\\^$.|?*+(){}\[\]]", r"\\\g<0>", text)
    behavior: Any = step.get("behavior")  # checked by _translated
    # Isolating the text between matches gives the same pieces as isolating the matches.
    return Split(text, behavior, invert and behavior != "Isolated")


def _translated(split: Split) -> Split:
    """Return a split in the syntax of this library, after checking that it drops no text."""
    theirs = split.expression
    if not re.search(r"[\\^$|?*+()\[\]{}]", theirs):
        theirs = f"(?:{theirs})"  # otherwise, it would be read as the name of a pattern
    expression = resolve_pattern(from_oniguruma(theirs))
    if split.behavior == "Removed":
        if split.invert:
            return Split(matching_all_text(expression, "the pre_tokenizer drops"))
        raise InputError(
            "pre_tokenizer with behavior Removed is not supported: it drops characters, so ids "
            "could not be decoded to the text"
        )
    if split.behavior not in BEHAVIORS:
        raise InputError(
            f"pre_tokenizer must have one of the behaviors {', '.join(BEHAVIORS)}, got "
            f"{short_repr(split.behavior)}"
        )
    return Split(expression, split.behavior, split.invert)
