"""The split patterns, each written once; everything else refers to them by name.

Every vocabulary is saved with its pattern: a tokenizer that splits text differently from its
trainer is a common and silent bug.
"""

from __future__ import annotations

import difflib
import functools

import regex

from cs336_basics._messages import short_reason, short_repr
from cs336_basics.pretokenization.pattern_limits import check_limits

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


# What gives a regular expression a meaning beyond its letters. Without any of these it matches one
# text only (a dot apart) and is a name that somebody misspelt.
_OPERATORS = frozenset("\\^$|?*+()[]{}")


def resolve_pattern(pattern: str) -> str:
    """Return the regular expression for a name in PATTERNS, or `pattern` itself if it is one.

    A text without an operator of regular expressions, such as `cl100k_base`, is not taken for an
    expression, although it is one: it would find nothing but itself. `(?:cl100k_base)` is.

    Raises:
        ValueError: `pattern` is neither a known name nor a regular expression that compiles; it
            takes too much time or memory to compile, see `check_limits`; it searches backwards; or
            it matches the empty string, so that splitting would not advance.
        TypeError: it is not a str.
    """
    if not isinstance(pattern, str):
        raise TypeError(
            f"pattern is {short_repr(pattern)}, of type {type(pattern).__name__}: it must be a "
            f"str, one of {', '.join(PATTERNS)} or a regular expression"
        )
    return PATTERNS.get(pattern) or _checked_expression(str(pattern))


@functools.lru_cache(maxsize=32)
def _checked_expression(pattern: str) -> str:
    """Return a regular expression after checking it; see `resolve_pattern`."""
    shown = short_repr(pattern)
    if _OPERATORS.isdisjoint(pattern) and any(map(str.isalnum, pattern)):
        near = difflib.get_close_matches(pattern.strip().lower(), PATTERNS, n=1)
        raise ValueError(
            f"pattern {shown} is not one of {', '.join(PATTERNS)}"
            + (f": did you mean {near[0]}?" if near else "")
            + f" (as a regular expression it finds only itself; to use it as one, write "
            f"{short_repr(f'(?:{pattern})')})"
        )
    try:
        compiled = compile_pattern(pattern)
    except ValueError as error:
        raise ValueError(f"pattern {shown} cannot be used: {error}") from None
    except regex.error as error:
        raise ValueError(
            f"pattern {shown} is neither one of {', '.join(PATTERNS)} nor a regular "
            f"expression of the `regex` module: {short_reason(error)}"
        ) from None
    if compiled.flags & regex.REVERSE:
        raise ValueError(f"pattern {shown} searches from the end (?r): it cannot split text")
    if compiled.fullmatch(""):
        raise ValueError(f"pattern {shown} matches the empty string: it cannot split text")
    return pattern


def pattern_name(pattern: str) -> str | None:
    """Return the name of a pattern (given by name or expression) in PATTERNS, or None."""
    for name, expression in PATTERNS.items():
        if pattern in (name, expression):
            return name
    return None


@functools.lru_cache(maxsize=32)
def compile_pattern(expression: str) -> regex.Pattern[str]:
    """Compile a regular expression, once for all callers.

    Raises:
        ValueError: it takes too much time or memory to compile, see `check_limits`.
        regex.error: it is not a regular expression.
    """
    check_limits(expression)
    try:
        return regex.compile(expression)
    except (RecursionError, OverflowError, MemoryError) as error:
        raise ValueError(f"it is too complex ({short_reason(error)})") from None
