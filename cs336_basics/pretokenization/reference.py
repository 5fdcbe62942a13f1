"""The reference splitter: a split pattern applied by the `regex` module.

It is slow, and correct by definition. Every faster splitter is tested against it.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs336_basics.pretokenization.patterns.named_patterns import compile_pattern, resolve_pattern


def pretokenize(text: str, pattern: str = "gpt2") -> Iterator[str]:
    """Yield the pre-tokens of a text that holds no special token, in order.

    Characters that the pattern does not match are left out, as with `finditer`, and so are empty
    matches. The named patterns match every character, so joining their pre-tokens gives the text
    again.

    Args:
        text: the text; cut special tokens out first with `split_special_tokens`.
        pattern: a name in PATTERNS or a regular expression.

    Raises:
        ValueError: see `resolve_pattern`.
    """
    for match in compile_pattern(resolve_pattern(pattern)).finditer(text):
        if match.group():
            yield match.group()


# For each version of Unicode, a letter that it added: the `regex` module does not give its version.
_FIRST_LETTERS = {
    "18.0": 0x3D000,
    "17.0": 0x16EA0,
    "16.0": 0x105C0,
    "15.1": 0x2EBF0,
    "15.0": 0x1E4D0,
    "14.0": 0x0870,
    "13.0": 0x08BE,
}


def unicode_version() -> str:
    """Return the version of Unicode that the installed `regex` module uses.

    A vocabulary records it: text with letters that a later version added is split differently by
    that version.
    """
    letter = compile_pattern(r"\p{L}")
    for version, code in _FIRST_LETTERS.items():
        if letter.match(chr(code)):
            return version
    return "before 13.0"
