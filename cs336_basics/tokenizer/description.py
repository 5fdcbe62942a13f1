"""Describe the parts of a tokenizer in a few lines, in the order a text passes them."""

from __future__ import annotations

from collections.abc import Sequence

from cs336_basics._support.messages import counted
from cs336_basics._support.visible import visible, without_controls
from cs336_basics.splitting.patterns.named_patterns import pattern_name
from cs336_basics.splitting.patterns.split_sequences import (
    PREFIX,
    Split,
    is_sequence,
    splits_of,
)
from cs336_basics.tokenizer.added_tokens import AddedToken
from cs336_basics.tokenizer.definition import TokenizerDefinition
from cs336_basics.tokenizer.length_settings import LengthSettings
from cs336_basics.tokenizer.post_processor import Template

_MOST_TOKENS = 4
"""Maximum number of added tokens whose content is shown."""
_LONGEST_TOKEN = 40
_LONGEST_LINE = 200


def described_parts(definition: TokenizerDefinition) -> dict[str, str]:
    """Return what each part of a definition does, on one line each, by the name of the part.

    Text from files is shown with marks for whitespace and control characters.
    """
    rule = ""
    if definition.ignore_merges:
        rule = "; a pre-token that is a token needs none (ignore_merges)"
    parts = {
        "added tokens": _described_added(definition.added_tokens),
        "normalizer": definition.normalizer or "none",
        "split": _described_pattern(definition.pattern),
        "merges": f"{len(definition.merges):,}{rule}",
        "post-processor": _described_post_processor(definition),
    }
    if definition.length_settings is not None:
        parts["length settings"] = _described_lengths(definition.length_settings)
    return parts


def described(definition: TokenizerDefinition) -> str:
    """Return the number of tokens and the parts of a definition, on one line each."""
    size = len(definition.vocab)
    gaps = "" if definition.size == size else f", highest id {definition.size - 1:,}"
    lines = [f"Tokenizer with {counted(size, 'token')}{gaps}"]
    lines += [f"  {name:<16}{text}" for name, text in described_parts(definition).items()]
    return "\n".join(lines)


def _described_added(tokens: Sequence[AddedToken]) -> str:
    if not tokens:
        return "none"
    kinds = []
    for count, kind in (
        (sum(token.special for token in tokens), "special"),
        (sum(not token.special for token in tokens), "other"),
    ):
        if count:
            kinds.append(f"{count:,} {kind}")
    shown = [shown_text(token.content) for token in tokens[:_MOST_TOKENS]]
    more = [f"and {len(tokens) - len(shown):,} more"] if len(tokens) > len(shown) else []
    return f"{', '.join(kinds)}: {' '.join([*shown, *more])}"


def _described_pattern(pattern: str) -> str:
    if is_sequence(pattern):
        splits = splits_of(pattern)
        shown = ", then ".join(map(_described_split, splits))
        return _cut(shown if len(splits) == 1 else f"{len(splits)} steps: {shown}")
    return pattern_name(pattern) or _cut(pattern)


def _described_split(split: Split) -> str:
    if split == PREFIX:
        return "a space before a text without one"
    expression = pattern_name(split.expression) or split.expression
    effects = [] if split.behavior == "Isolated" else [split.behavior]
    effects += ["inverted"] if split.invert else []
    return f"{expression} ({', '.join(effects)})" if effects else expression


def _described_post_processor(definition: TokenizerDefinition) -> str:
    post_processor = definition.post_processor
    if post_processor is None or not post_processor.changes_ids:
        return "none"
    vocab = definition.vocab

    def shown(template: Template) -> str:
        return " ".join(
            {"A": "TEXT", "B": "PAIR"}[item] if isinstance(item, str) else shown_text(vocab[item])
            for item in template
        )

    return _cut(f"{shown(post_processor.single)}; for two texts {shown(post_processor.pair)}")


def _described_lengths(settings: LengthSettings) -> str:
    found = []
    if settings.truncation is not None:
        found.append(f"truncation to {settings.max_length:,} ids")
    if (padding := settings.padding) is not None:
        to = "the longest text"
        if settings.padded_length is not None:
            to = f"{settings.padded_length:,} ids"
        found.append(f"padding to {to} with {shown_text(padding['pad_token'])}")
    return f"{' and '.join(found)}, if tokenizer(text) is asked to"


def shown_text(text: str | bytes) -> str:
    """Return a token or a part of a text as printable text, shortened if it is long."""
    data = text if isinstance(text, bytes) else text[: _LONGEST_TOKEN + 1].encode()
    text = visible(data[: 4 * _LONGEST_TOKEN + 4])
    return text if len(text) <= _LONGEST_TOKEN else text[: _LONGEST_TOKEN - 3] + "..."


def _cut(text: str) -> str:
    text = without_controls(text).replace("\n", "↵")
    return text if len(text) <= _LONGEST_LINE else text[: _LONGEST_LINE - 3] + "..."
