"""The reference splitter: a split pattern, run by the `regex` module. Slow, and right by definition.

Every faster splitter is tested against this one.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs336_basics.pretokenization.patterns import compile_pattern, resolve_pattern


def pretokenize(text: str, pattern: str = "gpt2") -> Iterator[str]:
    """Yield the pre-tokens of a text that holds no special token, in order.

    What the pattern does not match is left out, as with `finditer`; the named patterns match
    every character, so that joining their pre-tokens gives the text again.

    Args:
        text: the text; cut special tokens out first with `split_special_tokens`.
        pattern: a name in PATTERNS or a regular expression.

    Raises:
        ValueError: see `resolve_pattern`.
    """
    for match in compile_pattern(resolve_pattern(pattern)).finditer(text):
        yield match.group()
