"""Split patterns in the regular expressions of other libraries, out and in.

Here patterns are those of Python's `regex` module, in Hugging Face's tokenizers those of Oniguruma,
in tiktoken those of Rust's fancy-regex. The same text may mean something else there: `$`, `\\w`,
`{1,3}+`, `[a&&b]`, and what ignores case. Therefore the known patterns are translated by name, and
of other patterns only the syntax passes that means the same to all three.

A pattern from a file may be slow, as one of the caller's: most are compiled and take linear time,
and `regex` runs the others with a time limit (`splitter.search_words`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from cs336_basics._support.messages import short_repr
from cs336_basics._support.warnings import warn
from cs336_basics.pretokenization.patterns.named_patterns import (
    CL100K,
    GPT2,
    PATTERNS,
    pattern_name,
    resolve_pattern,
)
from cs336_basics.pretokenization.patterns.pattern_limits import MAX_LENGTH
from cs336_basics.pretokenization.patterns.split_program import complete_program

_NAMED = {expression: expression for expression in PATTERNS.values()}

# In Oniguruma, `$` also matches before a line feed.
ONIGURUMA = {**_NAMED, CL100K: CL100K.replace("$", r"\z")}
"""Each named pattern -> the same in Oniguruma."""

# Other spellings of the same, as files have them: GPT-2's as it was published, with its letters in
# brackets or not, and tiktoken's, whose possessive quantifiers only save backtracking.
_GPT2_PUBLISHED = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
_GPT2_TIKTOKEN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
_CL100K_TIKTOKEN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
_GPT2_BRACKETS = _GPT2_PUBLISHED.replace(r"\p{L}+| ?\p{N}+", r"[\p{L}]+| ?[\p{N}]+")
_KNOWN = {_GPT2_PUBLISHED: GPT2, _GPT2_BRACKETS: GPT2}
_FROM_ONIGURUMA = {**_KNOWN, **{theirs: ours for ours, theirs in ONIGURUMA.items()}}
_FROM_FANCY_REGEX = {**_NAMED, **_KNOWN, _GPT2_TIKTOKEN: GPT2, _CL100K_TIKTOKEN: CL100K}

# GPT-2 after numbers were cut out, whole or digit by digit: StarCoder, SmolLM. The space before a
# number is a pre-token of its own, and so is all white space there.
GPT2_NUMBERS = r"\p{N}+|'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"
GPT2_SINGLE_DIGITS = GPT2_NUMBERS.replace(r"\p{N}+|", r"\p{N}|", 1)

# Without case: other letters that count as one of these are the same in all three. (In general they
# are not: Oniguruma takes `ß` for `ss`.)
_CONTRACTIONS = ("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "(?i:[sdmt]|ll|ve|re)")

_ESCAPE = r"\\ (?: [sSrntd] | [pP]\{ (?: [LMNPSZC][a-z]? | Han | Hiragana | Katakana ) \} " + (
    r"""| [\[\]\\^$.|?*+(){}\-/\#~!%,:;=@"] )"""
)
_SHARED_SYNTAX = rf"""(?:
        (?: {"|".join(map(re.escape, _CONTRACTIONS))}
        | [^\\\[\](){{}}^$.*+?|]                            # a character that stands for itself
        | {_ESCAPE}
        | \[ \^? (?: [^\\\[\]^&~-] | -(?!-) | {_ESCAPE} )+ \]
        ) (?: [?*+][?+]? | \{{ \d+ (?: , \d* )? \}} (?![?*+]) )?
        | \( (?: \?: | \?! | \?= )? | \| | \) (?: [?*+] (?![?*+]) )?
    )*+"""


def to_oniguruma(pattern: str) -> str:
    """Return a split pattern, a name or an expression, in Oniguruma's syntax.

    Raises:
        ValueError: it uses syntax that may mean something else there.
    """
    expression = resolve_pattern(pattern)
    return ONIGURUMA.get(expression) or _checked(expression, "Hugging Face's tokenizers")


def to_fancy_regex(pattern: str) -> str:
    """Return a split pattern, a name or an expression, in the syntax of tiktoken's fancy-regex.

    Raises:
        ValueError: it uses syntax that may mean something else there.
    """
    expression = resolve_pattern(pattern)
    return expression if expression in _NAMED else _checked(expression, "tiktoken")


def _is_shared_syntax(expression: str) -> bool:
    import regex

    return regex.fullmatch(_SHARED_SYNTAX, expression, regex.VERBOSE) is not None


def _checked(expression: str, library: str) -> str:
    if not _is_shared_syntax(expression):
        raise ValueError(
            f"pattern {short_repr(expression)} uses syntax that may mean something else in "
            f"{library}: only named patterns and plain ones (classes, repetitions, groups, "
            "lookahead) can be exported"
        )
    return expression


def from_oniguruma(expression: str, *, keeps_rest: bool) -> str:
    """Return the name or expression of a split pattern in Oniguruma's syntax.

    Args:
        expression: the pattern.
        keeps_rest: what lies between two matches is a pre-token as well.

    Raises:
        ValueError: it uses syntax that may mean something else here.
    """
    return _imported(expression, _FROM_ONIGURUMA, keeps_rest)


def from_fancy_regex(expression: str) -> str:
    """Return the name or expression of a split pattern in the syntax of tiktoken's fancy-regex.

    Raises:
        ValueError: it uses syntax that may mean something else here.
    """
    return _imported(expression, _FROM_FANCY_REGEX, keeps_rest=False)


def from_given_fancy_regex(expression: str) -> str:
    """Return the name or expression of a split pattern that a caller gives, not a file.

    It may be one of the `regex` module.

    Warns:
        UserWarning: it has syntax that may mean something else in tiktoken's fancy-regex.
    """
    if expression in _FROM_FANCY_REGEX:
        expression = _FROM_FANCY_REGEX[expression]
        return pattern_name(expression) or expression
    if not _is_shared_syntax(expression):
        warn(
            f"pattern {short_repr(expression)} has syntax that may mean something else in "
            "tiktoken: it is read as a pattern of Python's `regex` module"
        )
    return expression


def _imported(expression: str, known: Mapping[str, str], keeps_rest: bool) -> str:
    if expression in known:
        return pattern_name(known[expression]) or known[expression]
    if len(expression) > MAX_LENGTH or not _is_shared_syntax(expression):
        raise ValueError(
            f"its split pattern {short_repr(expression)} is longer than {MAX_LENGTH:,} characters, "
            "or has syntax that may mean something else here"
        )
    # (The group makes it run in the `regex` module: only where something can be left out.)
    if keeps_rest and complete_program(expression) is None:
        expression = f"{expression}|(?:(?!{expression})[\\s\\S])+"
    return resolve_pattern(expression)
