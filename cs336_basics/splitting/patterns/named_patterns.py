"""The named split patterns. All other modules refer to them by name.

Every vocabulary is saved with its pattern. Otherwise, a tokenizer could split text differently from
its trainer, which is a common bug and raises no error.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from cs336_basics._support.arguments import utf8_of
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.lazy import LazyModule
from cs336_basics._support.messages import nearest, short_reason, short_repr
from cs336_basics.splitting.patterns.pattern_limits import check_limits
from cs336_basics.splitting.patterns.split_sequences import SplitSequence, is_sequence

if TYPE_CHECKING:
    import regex
else:
    regex = LazyModule("regex")

# Radford et al. 2019, "Language Models are Unsupervised Multitask Learners" (GPT-2). The lookahead
# attaches the last space before a word to that word.
GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""

# GPT-4, as tiktoken 0.14 defines `cl100k_base`: contractions in any case, numbers in groups of up
# to three digits, and line endings kept with the punctuation before them. tiktoken's possessive
# quantifiers are omitted, because they only save backtracking and do not change the matches.
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+$|\s*[\r\n]|\s+(?!\S)|\s"
)

# GPT-2 with numbers cut into single digits, or into groups of three from the left or the right.
# Models do arithmetic better with groups from the right (Singh and Strouse 2024, "Tokenization
# counts").
GPT2_DIGITS1 = GPT2.replace(r"\p{N}+", r"\p{N}")
GPT2_DIGITS3 = GPT2.replace(r"\p{N}+", r"\p{N}{1,3}")
FROM_THE_RIGHT = r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))"

# Llama 3, from the `tokenizer.json` of meta-llama/Meta-Llama-3-8B.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# Qwen 2, 2.5 and 3, from the `tokenizer.json` of Qwen/Qwen2-7B: Llama 3 with single digits.
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

# GPT-4o, as tiktoken 0.14 defines `o200k_base`: words are also cut before capital letters.
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTION}"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTION}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# The `tokenizer.json` of DeepSeek-V3 splits text three times: into numbers of up to three digits,
# into runs of Chinese characters and kana, and then each remaining part with
#   [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
#   | ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
# keeping text that the expression does not match. The expression below combines these steps.
# Lookaheads keep each alternative inside or outside a run, numbers and runs count as the end of the
# text for `(?!\S)`, and the last two alternatives keep unmatched text.
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
    "gpt2-digits3-right": GPT2.replace(r"\p{N}+", FROM_THE_RIGHT),
    "cl100k": CL100K,
    "cl100k-digits3-right": CL100K.replace(r"\p{N}{1,3}", FROM_THE_RIGHT),
    "llama3": LLAMA3,
    "llama3-digits3-right": LLAMA3.replace(r"\p{N}{1,3}", FROM_THE_RIGHT),
    "qwen2": QWEN2,
    "o200k": O200K,
    "o200k-digits3-right": O200K.replace(r"\p{N}{1,3}", FROM_THE_RIGHT),
    "deepseek-v3": DEEPSEEK_V3,
}
"""Regular expressions by name, in the syntax of the `regex` module."""

# Each group of three digits from the right looks ahead to the end of its number. A group after a
# digit need not: the group before it has found that only groups of three digits follow. The first
# group tries each length once, with a possessive lookahead, because `regex` takes quadratic time to
# go back through a long repetition: 800,000 digits took 9 seconds.
_WHOLE_GROUPS = r"(?=(?:\p{N}{3})*+(?!\p{N}))"
_FIRST_GROUP = rf"(?:\p{{N}}{_WHOLE_GROUPS}|\p{{N}}{{2}}{_WHOLE_GROUPS}|\p{{N}}{{3}})"
SEARCHED = {
    name: re.sub(
        rf"( ?\??){re.escape(FROM_THE_RIGHT)}",
        lambda group: rf"(?<=\p{{N}})\p{{N}}{{3}}|{group[1]}{_FIRST_GROUP}",
        expression,
    )
    for name, expression in PATTERNS.items()
    if FROM_THE_RIGHT in expression
}
"""Expressions with the same matches as a named pattern, which `regex` finds in linear time. Other
patterns are searched by name, which also works if `regex` is not installed."""

_NAMES = {expression: name for name, expression in PATTERNS.items()}

_OF_OTHERS = {
    "gpt-2": "gpt2",
    "r50k_base": "gpt2",
    "p50k_base": "gpt2",
    "gpt-3.5": "cl100k",
    "gpt-4": "cl100k",
    "gpt-4o": "o200k",
    "gpt-4.1": "o200k",
    "gpt-5": "o200k",
    "gpt-oss": "o200k",
    "o200k_harmony": "o200k",
    "llama-3": "llama3",
    "llama-4": "o200k",
    "qwen": "qwen2",
    "qwen3": "qwen2",
}
"""Names of models and encodings of others -> name of the pattern that they use, for messages."""

# An expression without any of these characters matches only itself (apart from dots), so it is
# treated as a misspelled name.
_OPERATORS = frozenset("\\^$|?*+()[]{}")


_KEEP = re.compile(r"(?<!\\)(?:\\\\)*\\K")


def resolve_pattern(pattern: str) -> str:
    """Return the regular expression for a name in PATTERNS, or any other expression unchanged.

    A string without operators, such as `cl100k_base`, is rejected as a misspelled name. To match
    it literally, write `(?:cl100k_base)`.

    Raises:
        ValueError: If `pattern` is neither a name nor a valid regular expression, exceeds the
            limits of `check_limits`, searches backwards, moves the start of a match (`\\K`), or
            matches the empty string (splitting would never end).
        TypeError: If `pattern` is not a str.

    Example:
        >>> from cs336_basics.splitting import resolve_pattern
        >>> resolve_pattern("gpt2").startswith("'(?:[sdmt]|ll|ve|re)|"), resolve_pattern("a+|b")
        (True, 'a+|b')
    """
    if not isinstance(pattern, str):
        raise InputTypeError(
            f"must be a str, one of {', '.join(PATTERNS)} or a regular expression, got "
            f"{short_repr(pattern)} ({type(pattern).__name__})",
            argument="pattern",
        )
    return PATTERNS.get(pattern) or _checked_expression(str(pattern))


_NOTHING = "(?!)|"  # an alternative that never matches


@functools.lru_cache(maxsize=32)
def _checked_expression(pattern: str) -> str:
    """Check a regular expression as described in `resolve_pattern`, and return it."""
    utf8_of("pattern", pattern)  # a saved pattern is UTF-8
    shown = short_repr(pattern)
    if _OPERATORS.isdisjoint(pattern) and any(map(str.isalnum, pattern)):
        raise InputError(
            f"must be one of {', '.join(PATTERNS)} or a regular expression, got {shown}"
            f"{_suggested(pattern.strip().lower())} (for a regular expression that matches "
            f"only this text, write {short_repr(f'(?:{pattern})')})",
            argument="pattern",
        )
    try:
        compiled = compile_pattern(pattern)
    except regex.error as error:
        raise InputError(
            f"{shown} is neither one of {', '.join(PATTERNS)} nor a valid regular expression: "
            f"{short_reason(error)}",
            argument="pattern",
        ) from None
    if compiled.flags & regex.REVERSE:
        raise InputError(
            f"{shown} must not search backwards", argument="pattern", remedy="remove (?r)"
        )
    if _KEEP.search(pattern):
        raise InputError(
            f"{shown} must not move the start of a match", argument="pattern", remedy="remove \\K"
        )
    try:
        matches_nothing = compiled.fullmatch("", timeout=1) is not None
    except TimeoutError:
        raise InputError(
            f"{shown} takes more than a second to match the empty string",
            argument="pattern",
            remedy="simplify it",
        ) from None
    if matches_nothing:
        raise InputError(f"{shown} must not match the empty string", argument="pattern")
    return pattern


def _suggested(name: str) -> str:
    """Return `; did you mean 'NAME'?` for a name that is not in PATTERNS, or an empty string."""
    beginnings = [other for other in _OF_OTHERS if name.startswith(other)]
    if beginnings:  # "gpt-4o-mini" starts with "gpt-4" and with "gpt-4o"
        return f"; did you mean {_OF_OTHERS[max(beginnings, key=len)]!r}?"
    return nearest(name, PATTERNS)


def pattern_name(pattern: str) -> str | None:
    """Return the name of a pattern given as a name or an expression, or None if it has no name."""
    return pattern if pattern in PATTERNS else _NAMES.get(pattern)


@functools.lru_cache(maxsize=32)
def compile_pattern(expression: str) -> regex.Pattern[str]:
    """Compile a regular expression and cache the result.

    If the `regex` module is not installed, a named pattern is compiled for `re`. For a sequence of
    splits, the result has only the methods that `SplitSequence` has.

    Raises:
        ValueError: If compiling would take too much time or memory (see `check_limits`).
        regex.error: If `expression` is not a valid regular expression.
    """
    if is_sequence(expression):
        return SplitSequence(expression, lambda part: compile_pattern(resolve_pattern(part)))
    check_limits(expression)
    try:
        compiled = regex.compile
    except ModuleNotFoundError:
        if expression not in PATTERNS.values():
            raise
        from cs336_basics.splitting.patterns.re_patterns import re_pattern

        return re_pattern(expression)
    try:
        # Work around a bug in `regex`: if an alternative is `(?i:...)`, the search for the first
        # character of a match misses some characters. For example, `(?i:ab)|[^k1]` does not find K.
        # An alternative that never matches disables this search and costs nothing.
        return compiled(_NOTHING + expression)
    except regex.error:
        compiled(expression)  # raises the same error, with its position in the expression
        raise
    except (RecursionError, OverflowError, MemoryError) as error:
        raise InputError(
            f"{short_repr(expression)} is too complex: {short_reason(error)}", argument="pattern"
        ) from None
