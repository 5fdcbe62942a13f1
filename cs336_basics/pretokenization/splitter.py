"""Splitter: how text is split. Special tokens are cut out, the rest is split into pre-tokens."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cs336_basics._support.lazy import LazyModule
from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics.pretokenization.patterns.named_patterns import compile_pattern, resolve_pattern
from cs336_basics.pretokenization.safe_cuts import SafeCuts
from cs336_basics.pretokenization.token_finder import token_finder

if TYPE_CHECKING:
    from cs336_basics.pretokenization.patterns import split_program
else:  # named patterns do without
    split_program = LazyModule("cs336_basics.pretokenization.patterns.split_program")

try:
    from cs336_basics.pretokenization import _scanner
except ImportError:  # not built: `regex` splits all text
    _scanner = None  # type: ignore[assignment]

__all__ = [
    "Splitter",
    "check_special_tokens",
    "has_scanner",
    "pretokenize",
    "split_special_tokens",
]

MAX_SPECIAL_TOKEN_LENGTH = 1024
"""Bytes of the longest special token: the time to find (or miss) one grows with its length."""

SEARCH_TIMEOUT = 10
"""Seconds that `regex` may take to find the next pre-tokens with a pattern that cannot be compiled,
plus one second for every 100,000 characters of the text."""

_MATCHES_AT_A_TIME = 1024

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Splitter:
    """A split pattern and the special tokens that are cut out before it is applied.

    Both are checked here; functions that take a Splitter do not check them again. A Splitter is
    immutable, hashable, and can be pickled.

    Args:
        pattern: a name in PATTERNS or a regular expression of the `regex` module.
        special_tokens: texts that no pre-token may touch. Where they overlap, the one that starts
            first wins, and of several that start at the same offset the longest.

    Raises:
        ValueError: the pattern is neither a name nor a regular expression that can split text; a
            special token is empty, repeated, or not valid Unicode.
        TypeError: `special_tokens` is a single string or a set, or holds something else than str.
    """

    pattern: str = "gpt2"
    special_tokens: Sequence[str] = ()

    def __post_init__(self) -> None:
        resolve_pattern(self.pattern)
        tokens = tuple(check_special_tokens(self.special_tokens))
        object.__setattr__(self, "special_tokens", tokens)

    @classmethod
    def of(cls, splitter: Splitter | None) -> Splitter:
        """Return a splitter, `Splitter()` for None.

        Raises:
            TypeError: it is something else, such as a list of special tokens.
        """
        if splitter is None:
            return cls()
        if not isinstance(splitter, Splitter):
            raise TypeError(
                f"splitter is {short_repr(splitter)}: pass Splitter(pattern, special_tokens), "
                "such as Splitter(special_tokens=['<|endoftext|>'])"
            )
        return splitter

    @property
    def expression(self) -> str:
        """The regular expression of the pattern."""
        return resolve_pattern(self.pattern)

    @property
    def has_scanner(self) -> bool:
        """Whether the compiled scanner is built and knows the pattern."""
        return has_scanner(self.pattern)

    @property
    def safe_cuts(self) -> SafeCuts:
        """Finds where bytes can be cut without changing how they are split."""
        return _safe_cuts(tuple(self.special_tokens), self.pattern)

    def split(self, text: str) -> Iterator[str]:
        """Return an iterator over the pre-tokens of a text, in order, without special tokens.

        What the pattern does not match is left out; the named patterns match every character.
        """
        for segment, is_special in self.split_special_tokens(text):
            if not is_special:
                yield from self.pretokenize(segment)

    def split_special_tokens(self, text: str) -> Iterator[tuple[str, bool]]:
        """Yield `(segment, is_special)` from left to right; see `split_special_tokens`."""
        return split_special_tokens(text, self.special_tokens)

    def pretokenize(self, text: str) -> Iterator[str]:
        """Return an iterator over the pre-tokens of a text that holds no special token."""
        return pretokenize(text, self.pattern)


def has_scanner(pattern: str) -> bool:
    """Return whether compiled code can split text with this pattern (name or expression).

    It can if the extensions are built, and the pattern can be compiled and leaves out no text.
    """
    return _scanner is not None and (
        _scanner.scanned_pattern(pattern) is not None
        or split_program.complete_program(pattern) is not None
    )


def pretokenize(text: str, pattern: str = "gpt2") -> Iterator[str]:
    """Return an iterator over the pre-tokens of a text that holds no special token, in order.

    Compiled code splits the text if it can (see `find_program`), else `regex`. The result is that
    of `reference.pretokenize` in both cases.

    Args:
        text: the text; cut special tokens out first with `split_special_tokens`.
        pattern: a name in PATTERNS or a regular expression.

    Raises:
        ValueError: see `resolve_pattern`; or, while the iterator runs, a search took too long.
        TypeError: `text` is not a str.
    """
    resolve_pattern(pattern)
    check_is_str(text)
    # UTF-8, and so the scanner, has no lone surrogates.
    if (
        _scanner is not None
        and (
            _scanner.scanned_pattern(pattern) is not None
            or split_program.find_program(pattern) is not None
        )
        and (text.isascii() or not _LONE_SURROGATE.search(text))
    ):
        return _scanner.pretokenize_text(text, pattern)
    return (word for _, word in search_words(text, pattern))


def search_words(text: str, pattern: str) -> Iterator[tuple[int, str]]:
    """Yield (start in characters, pre-token) as `regex` finds them, without empty ones.

    Raises:
        ValueError: it takes longer than SEARCH_TIMEOUT allows.
    """
    find = compile_pattern(resolve_pattern(pattern)).finditer
    limit = SEARCH_TIMEOUT + len(text) / 100_000
    start: int | None = 0
    while start is not None:
        # `regex` counts all of the time until the iterator ends, that of the caller between two
        # matches included. So each iterator is read at once, and a new one begins where it ended.
        matches = find(text, start, timeout=limit)
        start = None
        found = []
        try:
            for match in matches:
                found.append((match.start(), match.group()))
                # (After an empty match, a new iterator would find the same one again.)
                if len(found) >= _MATCHES_AT_A_TIME and found[-1][1]:
                    start = match.end()
                    break
        except TimeoutError:
            raise ValueError(
                f"pattern {short_repr(pattern)} took more than {limit:.3g} seconds to find the "
                "next pre-tokens: rewrite it without repetitions inside of repetitions"
            ) from None
        yield from ((place, word) for place, word in found if word)


def split_special_tokens(text: str, special_tokens: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield `(segment, is_special)` from left to right; joining the segments gives `text` again.

    Where special tokens overlap, the one that starts first wins, and of several that start at the
    same index the longest. Empty segments are left out.
    """
    if isinstance(special_tokens, (str, bytes)) or not isinstance(special_tokens, Iterable):
        special_tokens = check_special_tokens(special_tokens)
    tokens = tuple(special_tokens)
    if not tokens:
        if text:
            yield text, False
        return
    end = 0
    for start, stop in token_finder(tokens).occurrences(text):
        if start > end:
            yield text[end:start], False
        yield text[start:stop], True
        end = stop
    if end < len(text):
        yield text[end:], False


@functools.lru_cache(maxsize=8)
def _safe_cuts(special_tokens: tuple[str, ...], pattern: str) -> SafeCuts:
    return SafeCuts(special_tokens, pattern)


def check_is_str(text: object) -> None:
    """Raise TypeError for a text that is not a str."""
    if not isinstance(text, str):
        hint = "; decode it first, text.decode('utf-8')" if isinstance(text, bytes) else ""
        raise TypeError(f"text is of type {type(text).__name__}, not a str{hint}")


def check_special_tokens(special_tokens: Iterable[str] | None) -> list[str]:
    """Return the special tokens as a list (None: none), after refusing likely mistakes.

    Raises:
        TypeError: a bare string instead of a list (its characters would each become a special
            token), a mapping (ids belong into the vocabulary), a set (it has no order), or an item
            that is not a string.
        ValueError: an empty or a repeated special token, or one that UTF-8 cannot encode or that is
            longer than MAX_SPECIAL_TOKEN_LENGTH.
    """
    if special_tokens is None:
        return []
    if isinstance(special_tokens, (str, bytes, Mapping, set, frozenset)) or not isinstance(
        special_tokens, Iterable
    ):
        raise TypeError(
            f"special_tokens is {short_repr(special_tokens)}: pass a list of str, whose ids follow "
            "its order, such as ['<|endoftext|>']"
        )
    tokens = list(special_tokens)
    seen: set[str] = set()
    for token in tokens:
        if not isinstance(token, str):
            raise TypeError(
                f"special token {short_repr(token)} is of type {type(token).__name__}, not a str"
            )
        if not token:
            raise ValueError("special token '' is empty: it would match everywhere")
        if token in seen:
            raise ValueError(f"special token {short_repr(token)} is given twice")
        try:
            num_bytes = len(token.encode("utf-8"))
        except UnicodeEncodeError as error:
            raise ValueError(
                f"special token {short_repr(token)} is not valid Unicode: {short_reason(error)}"
            ) from None
        if num_bytes > MAX_SPECIAL_TOKEN_LENGTH:
            raise ValueError(
                f"special token {short_repr(token)} has {num_bytes:,} bytes: it must have at most "
                f"{MAX_SPECIAL_TOKEN_LENGTH:,}"
            )
        seen.add(token)
    return tokens
