"""Translate split patterns to and from the regular expressions of other libraries.

This library uses Python's `regex` module, Hugging Face's tokenizers use Oniguruma, and tiktoken
uses Rust's fancy-regex. Some syntax has different meanings in these libraries: `$`, `\\w`,
`{1,3}+`, `[a&&b]` and case-insensitive matching. A table therefore translates the named patterns,
and other patterns are accepted only if their syntax means the same in all three libraries.

Text that a pattern does not match becomes pre-tokens here and in Hugging Face's tokenizers.
tiktoken drops it, so patterns are exchanged with tiktoken only if they are known to match all text.

A pattern from a file may be slow. Most patterns are compiled and take linear time. All other
patterns run in `regex`, with a time limit (`splitter.search_pretokens`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.warnings import warn
from cs336_basics.splitting.patterns import split_program
from cs336_basics.splitting.patterns.named_patterns import (
    CL100K,
    GPT2,
    PATTERNS,
    compile_pattern,
    pattern_name,
    resolve_pattern,
)
from cs336_basics.splitting.patterns.pattern_limits import check_length
from cs336_basics.splitting.patterns.split_sequences import Split, sequence_pattern

_NAMED = {expression: expression for expression in PATTERNS.values()}

# In Oniguruma, `$` also matches before every line feed. DeepSeek-V2 splits at the last expression.
ONIGURUMA = {ours: ours.replace(r"\s+$", r"\s+\z") for ours in PATTERNS.values()}
ONIGURUMA[r"(?m:\s+$)"] = r"\s+$"
"""Mapping from the expression of each named pattern to its translation for Oniguruma."""

# Files contain other spellings of the named patterns: GPT-2's original spelling, with or without
# brackets around the letters, and tiktoken's spelling, whose possessive quantifiers only prevent
# backtracking.
_GPT2_PUBLISHED = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
_GPT2_TIKTOKEN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
_CL100K_TIKTOKEN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
_GPT2_BRACKETS = _GPT2_PUBLISHED.replace(r"\p{L}+| ?\p{N}+", r"[\p{L}]+| ?[\p{N}]+")
_KNOWN = {_GPT2_PUBLISHED: GPT2, _GPT2_BRACKETS: GPT2}

# BLOOM's set of characters contains another set, `[.,!?...]`, after `(\s|`.
_BLOOM_ONIGURUMA = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
_BLOOM = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
_FROM_ONIGURUMA = {
    **_KNOWN,
    _BLOOM_ONIGURUMA: _BLOOM,
    **{theirs: ours for ours, theirs in ONIGURUMA.items()},
}
_FROM_FANCY_REGEX = {**_NAMED, **_KNOWN, _GPT2_TIKTOKEN: GPT2, _CL100K_TIKTOKEN: CL100K}

PUNCTUATION = r"[!-/:-@\[-`{|}\~\p{P}]"
"""The characters that Hugging Face's tokenizers call punctuation."""

# Falcon cuts out runs of punctuation, splits with GPT-2's pattern, cuts out digits, and then
# divides them into groups of three.
FALCON = sequence_pattern(
    [Split(f"{PUNCTUATION}+"), Split(GPT2), Split("[0-9]+"), Split("[0-9][0-9][0-9]")]
)

# These case-insensitive expressions mean the same in all three libraries. Other expressions may
# not: in Oniguruma, `ß` matches `ss`.
_CONTRACTIONS = ("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "(?i:[sdmt]|ll|ve|re)")

_ESCAPE = r"\\ (?: [sSrntd] | [pP]\{ (?: [LMNPSZC][a-z]? | Han | Hiragana | Katakana ) \} " + (
    r"""| [\[\]\\^$.|?*+(){}\-/\#~!%,:;=@"] )"""
)
_SHARED_SYNTAX = rf"""(?:
        (?: {"|".join(map(re.escape, _CONTRACTIONS))}
        | [^\\\[\](){{}}^$.*+?|]                            # a literal character
        | {_ESCAPE}
        | \[ \^? (?: [^\\\[\]&~-] | & (?!&) | ~ (?!~) | {_ESCAPE}
                 | -(?=\]) | (?<! \\[sSd] | \}} )-(?! - | \\[sSdpP] )  # not after \s, before \s
                 )+ \]
        ) (?: [?*+][?+]? | \{{ \d+ (?: , \d* )? \}} (?![?*+]) )?
        | \( (?: \?: | \?! | \?= )? | \| | \) (?: [?*+] (?![?*+]) )?
    )*+"""


def to_oniguruma(pattern: str) -> str:
    """Translate a split pattern, given by name or expression, to Oniguruma's syntax.

    Raises:
        ValueError: If its syntax may mean something else in Oniguruma.
    """
    expression = resolve_pattern(pattern)
    return ONIGURUMA.get(expression) or _checked(expression, "Hugging Face's tokenizers")


def to_fancy_regex(pattern: str) -> str:
    """Translate a split pattern, given by name or expression, to fancy-regex's syntax.

    Raises:
        ValueError: If its syntax may mean something else in fancy-regex, or it may not match all
            text.
    """
    expression = resolve_pattern(pattern)
    if expression in _NAMED:
        return expression
    return _matching_all_text(_checked(expression, "tiktoken"))


def _matching_all_text(expression: str) -> str:
    """Return an expression, after checking that it is known to match all text.

    Raises:
        ValueError: If it may not match some text, which tiktoken would drop.
    """
    if pattern_name(expression) is not None:
        return expression
    program = split_program.find_program(expression)
    if program is None or not program.matches_all_text:
        reason = "does not match all text" if program else "cannot be shown to match all text"
        raise InputError(
            f"{short_repr(expression)} {reason}; tiktoken drops text that is not matched, but this "
            "library keeps it",
            argument="pattern",
            remedy="append |[\\s\\S] to match every character",
        )
    return expression


def _is_shared_syntax(expression: str) -> bool:
    import regex

    return regex.fullmatch(_SHARED_SYNTAX, expression, regex.VERBOSE) is not None


def _checked(expression: str, library: str) -> str:
    if not _is_shared_syntax(expression):
        raise InputError(
            f"{short_repr(expression)} has syntax that may mean something else in {library}",
            argument="pattern",
            remedy="use a named pattern, or only classes, repetitions, groups and lookahead",
        )
    return _never_empty(expression)


def _never_empty(expression: str) -> str:
    """Return an expression of shared syntax, after checking that it matches no empty string.

    After an empty match, `regex` searches on at the same place, the other libraries at the next.
    """
    # Let each lookahead succeed. In a character class, this only adds a character.
    always = re.sub(
        r"(\\.)|\(\?[=!]", lambda found: found[1] or "(?=|", resolve_pattern(expression)
    )
    try:
        matches_nothing = compile_pattern(always).fullmatch("", timeout=1) is not None
    except TimeoutError:
        matches_nothing = True
    if matches_nothing:
        raise InputError(
            f"{short_repr(expression)} has an alternative that may match the empty string, which "
            "may mean something else in another library",
            argument="pattern",
            remedy="make it match a character",
        )
    return expression


def from_oniguruma(expression: str) -> str:
    """Convert a split pattern from Oniguruma's syntax to a name or expression of this library.

    Raises:
        ValueError: If its syntax may mean something else in the `regex` module.
    """
    return _imported(expression, _FROM_ONIGURUMA)


# fancy-regex intersects sets: [A&&[^B]] is a character of A that is not in B.
_DIFFERENCE = re.compile(
    r"\[((?:[^\[\]\\&^]|\\.)(?:[^\[\]\\&]|\\.)*)&&\[\^((?:[^\[\]\\&]|\\.)+)\]\]"
)


def from_fancy_regex(expression: str) -> str:
    """Convert a split pattern from fancy-regex's syntax to a name or expression of this library.

    Raises:
        ValueError: If its syntax may mean something else in the `regex` module, or it may not match
            all text.
    """
    return _matching_all_text(_imported(_plain_sets(expression), _FROM_FANCY_REGEX))


def _plain_sets(expression: str) -> str:
    """Replace differences of sets, [A&&[^B]], by (?:(?![B])[A])."""
    return _DIFFERENCE.sub(r"(?:(?![\2])[\1])", expression)


def from_given_fancy_regex(expression: str) -> str:
    """Return the name or expression of a split pattern passed by a caller, not read from a file.

    The pattern may use the syntax of the `regex` module.

    Warns:
        UserWarning: If its syntax may mean something else in fancy-regex.
    """
    if expression in _FROM_FANCY_REGEX:
        expression = _FROM_FANCY_REGEX[expression]
        return pattern_name(expression) or expression
    expression = _plain_sets(expression)
    if not _is_shared_syntax(expression):
        warn(
            f"pattern {short_repr(expression)} has syntax that may mean something else in "
            "tiktoken; it is read as a pattern of Python's `regex` module"
        )
    return expression


def _imported(expression: str, known: Mapping[str, str]) -> str:
    if expression in known:
        return pattern_name(known[expression]) or known[expression]
    check_length(expression)
    if not _is_shared_syntax(expression):
        raise InputError(
            f"{short_repr(expression)} has syntax that may mean something else in Python's "
            "`regex` module",
            argument="pattern",
        )
    return resolve_pattern(_never_empty(expression))
