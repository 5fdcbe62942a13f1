"""The split patterns, each written once; everything else refers to them by name.

Every vocabulary is saved with its pattern: a tokenizer that splits text differently from its
trainer is a common and silent bug.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from cs336_basics._support.lazy import LazyModule
from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics.pretokenization.patterns.pattern_limits import check_limits

if TYPE_CHECKING:
    import difflib

    import regex
else:
    difflib, regex = LazyModule("difflib"), LazyModule("regex")

# Radford et al. 2019, "Language Models are Unsupervised Multitask Learners" (GPT-2). The
# lookahead leaves the last space of a run to the word after it.
GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""

# GPT-4, as tiktoken 0.14 defines `cl100k_base`: contractions in any case, numbers in groups of at
# most three digits, line ends kept with the punctuation before them. tiktoken's possessive
# quantifiers are left out: here they only save backtracking, and the matches are the same.
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+$|\s*[\r\n]|\s+(?!\S)|\s"
)

# GPT-2 with numbers cut into single digits, or into groups of three from the left or the right
# (Singh and Strouse 2024, "Tokenization counts": arithmetic is easier with groups from the right).
GPT2_DIGITS1 = GPT2.replace(r"\p{N}+", r"\p{N}")
GPT2_DIGITS3 = GPT2.replace(r"\p{N}+", r"\p{N}{1,3}")
GPT2_DIGITS3_RIGHT = GPT2.replace(r"\p{N}+", r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))")

# Llama 3, as `tokenizer.json` of meta-llama/Meta-Llama-3-8B has it.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# Qwen 2, 2.5 and 3, as `tokenizer.json` of Qwen/Qwen2-7B has it: Llama 3 with single digits.
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

# GPT-4o, as tiktoken 0.14 defines `o200k_base`: words are also cut before capital letters.
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTION}"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTION}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# DeepSeek-V3, whose `tokenizer.json` splits three times: numbers in groups of three, then runs of
# Chinese characters and kana, then everything within these and between them by
#   [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
#   | ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
# where what none of these matches is kept. Here it is one expression: nothing crosses a number or
# the edge of a run (lookaheads keep every alternative inside or outside), a number or a run ends
# the text for `(?!\S)`, and the last alternatives keep the rest.
_KANA = "\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff"
DEEPSEEK_V3 = (
    r"\p{N}{1,3}"
    rf"|(?:(?=[{_KANA}])[^\p{{L}}\p{{P}}\p{{S}}])?(?:(?=[{_KANA}])[\p{{L}}\p{{M}}])+"
    rf"|(?:(?=[{_KANA}])[\p{{P}}\p{{S}}])+"
    r"|[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"
    rf"|[^\r\n\p{{L}}\p{{P}}\p{{S}}\p{{N}}{_KANA}]?(?:(?![{_KANA}])[\p{{L}}\p{{M}}])+"
    rf"| ?(?:(?![{_KANA}])[\p{{P}}\p{{S}}])+[\r\n]*"
    rf"|\s*[\r\n]+|\s+(?![^\s\p{{N}}{_KANA}])|\s+"
    rf"|(?:(?=[{_KANA}])[^\p{{L}}\p{{M}}\p{{P}}\p{{S}}])+"
    rf"(?!(?=[{_KANA}])[\p{{L}}\p{{M}}])"
    rf"|[^\s\p{{L}}\p{{M}}\p{{P}}\p{{S}}\p{{N}}{_KANA}]+(?!(?![{_KANA}])[\p{{L}}\p{{M}}])"
)

PATTERNS: dict[str, str] = {
    "gpt2": GPT2,
    "gpt2-digits1": GPT2_DIGITS1,
    "gpt2-digits3": GPT2_DIGITS3,
    "gpt2-digits3-right": GPT2_DIGITS3_RIGHT,
    "cl100k": CL100K,
    "llama3": LLAMA3,
    "qwen2": QWEN2,
    "o200k": O200K,
    "deepseek-v3": DEEPSEEK_V3,
}
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
    try:
        matches_nothing = compiled.fullmatch("", timeout=1) is not None
    except TimeoutError:
        raise ValueError(
            f"pattern {shown} takes more than a second to match an empty text: rewrite it"
        ) from None
    if matches_nothing:
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
        # `regex` searches for the first characters of a match, and where `(?i:...)` is one of the
        # alternatives it forgets some: `(?i:ab)|[^k1]` does not find K. An alternative that never
        # matches, at no cost, turns this search off.
        return regex.compile("(?!)|" + expression)
    except (RecursionError, OverflowError, MemoryError) as error:
        raise ValueError(f"it is too complex ({short_reason(error)})") from None
