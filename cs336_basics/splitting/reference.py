"""The reference splitter, which applies a split pattern with the `regex` module.

It is slow but correct by definition. Every faster splitter is tested against it.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs336_basics.splitting.patterns.named_patterns import compile_pattern, resolve_pattern
from cs336_basics.splitting.patterns.split_sequences import SplitSequence


def pretokenize(text: str, pattern: str = "gpt2") -> Iterator[str]:
    """Yield the pre-tokens of a text without special tokens, in order.

    Each match is a pre-token, and so is the text between two matches, if there is any. Joining the
    pre-tokens restores the text, unless the pattern is a sequence that changes it.

    Args:
        text: Text to split. Cut out special tokens first with `split_special_tokens`.
        pattern: Name in PATTERNS, or regular expression.

    Raises:
        ValueError: If `resolve_pattern` rejects the pattern.
    """
    compiled = compile_pattern(resolve_pattern(pattern))
    if isinstance(compiled, SplitSequence):
        yield from (piece.text for piece in compiled.pieces(text))
        return
    end = 0
    for match in compiled.finditer(text):
        yield from (part for part in (text[end : match.start()], match.group()) if part)
        end = match.end()
    if end < len(text):
        yield text[end:]


# Unicode version -> a letter that it added. The `regex` module does not report its Unicode version,
# so `unicode_version` finds the newest of these letters that the module recognizes.
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
    """Return the Unicode version of the installed `regex` module.

    Vocabularies record the version, because each version adds letters. An older version does not
    recognize the new letters, so it splits text with these letters in a different way.
    """
    letter = compile_pattern(r"\p{L}")
    for version, code in _FIRST_LETTERS.items():
        if letter.match(chr(code)):
            return version
    return "before 13.0"
