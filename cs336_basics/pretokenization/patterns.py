"""The split patterns, each written once; everything else refers to them by name.

Every vocabulary is saved with its pattern: a tokenizer that splits text differently from its
trainer is a common and silent bug.
"""

from __future__ import annotations

import functools

import regex

# Radford et al. 2019, "Language Models are Unsupervised Multitask Learners" (GPT-2). The
# look-ahead leaves the last space of a run to the word after it.
GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""

# GPT-4, as tiktoken 0.14 defines `cl100k_base`: contractions in any case, numbers in groups of at
# most three digits, line ends kept with the punctuation before them. tiktoken's possessive
# quantifiers are left out: here they only save backtracking, and the matches are the same.
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+$|\s*[\r\n]|\s+(?!\S)|\s"
)

PATTERNS: dict[str, str] = {"gpt2": GPT2, "cl100k": CL100K}
"""name -> regular expression, in the syntax of the `regex` module."""


def resolve_pattern(pattern: str) -> str:
    """Return the regular expression for a name in PATTERNS, or `pattern` itself if it is one.

    Raises:
        ValueError: `pattern` is neither a known name nor a regular expression that compiles; it
            searches backwards; or it matches the empty string, so that splitting would not advance.
    """
    if pattern in PATTERNS:
        return PATTERNS[pattern]
    try:
        compiled = compile_pattern(pattern)
    except regex.error as error:
        raise ValueError(
            f"pattern {pattern!r} is neither one of {', '.join(PATTERNS)} nor a regular "
            f"expression of the `regex` module: {error}"
        ) from error
    if compiled.flags & regex.REVERSE:
        raise ValueError(f"pattern {pattern!r} searches from the end (?r): it cannot split text")
    if compiled.fullmatch(""):
        raise ValueError(f"pattern {pattern!r} matches the empty string: it cannot split text")
    return pattern


def pattern_name(pattern: str) -> str | None:
    """Return the name of a pattern (given by name or expression) in PATTERNS, or None."""
    for name, expression in PATTERNS.items():
        if pattern in (name, expression):
            return name
    return None


@functools.lru_cache(maxsize=32)
def compile_pattern(expression: str) -> regex.Pattern[str]:
    """Compile a regular expression, once for all callers."""
    return regex.compile(expression)
