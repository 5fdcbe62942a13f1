"""Split text: cut out the special tokens, normalize the rest, and split it with a pattern."""

from __future__ import annotations

import functools
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from cs336_basics._support.arguments import utf8_of
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.lazy import LazyModule
from cs336_basics._support.messages import short_repr
from cs336_basics.splitting import reference
from cs336_basics.splitting.patterns import split_program
from cs336_basics.splitting.patterns.named_patterns import (
    SEARCHED,
    compile_pattern,
    pattern_name,
    resolve_pattern,
)
from cs336_basics.splitting.patterns.split_sequences import Piece, SplitSequence, changes_text
from cs336_basics.splitting.token_finder import token_finder
from cs336_basics.text import normalization

if TYPE_CHECKING:
    from cs336_basics.splitting import safe_cuts
else:  # needed only to divide a text
    safe_cuts = LazyModule("cs336_basics.splitting.safe_cuts")

try:
    from cs336_basics.splitting import _scanner
except ImportError:  # not built; `regex` is used for all patterns
    _scanner = None  # type: ignore[assignment]

__all__ = [
    "Splitter",
    "check_special_tokens",
    "has_scanner",
    "pretokenize",
    "split_special_tokens",
]

MAX_SPECIAL_TOKEN_LENGTH = 1024
"""Maximum number of bytes in a special token. The time to search for a token grows with its
length."""

SEARCH_TIMEOUT = 10
"""Maximum number of seconds that `regex` may take to split a text with a pattern that cannot be
compiled. One second is added for every 10,000 characters of text."""

_SURROGATE = re.compile("[\ud800-\udfff]")


class _Parts(NamedTuple):
    pattern: str
    special_tokens: tuple[str, ...]
    normalizer: str | None


class Splitter(_Parts):
    """A split pattern, and what happens to a text before the pattern is applied.

    The constructor checks the arguments; functions that take a Splitter do not check them again.
    Splitters are immutable, hashable and picklable.

    Args:
        pattern: Name in PATTERNS, or regular expression for the `regex` module.
        special_tokens: Strings that are never part of a pre-token. If occurrences overlap, the
            leftmost wins; at the same offset, the longest wins.
        normalizer: Name in NORMALIZERS: the normalization form of the text between special tokens.
            Defaults to None, which leaves the text as it is.

    Raises:
        ValueError: If the pattern is neither a name nor a regular expression that can split text,
            a special token is empty, repeated, too long, or not valid Unicode, or the normalizer is
            unknown.
        TypeError: If `special_tokens` is a single string or a set, or an item is not a str.

    Example:
        >>> from cs336_basics.splitting import Splitter
        >>> splitter = Splitter("gpt2", ["<|endoftext|>"])
        >>> list(splitter.split("It's 10<|endoftext|>The end"))
        ['It', "'s", ' 10', 'The', ' end']
    """

    # Not a dataclass: importing `dataclasses` takes longer than loading GPT-2's vocabulary.
    __slots__ = ()

    def __new__(  # noqa: D102 -- the class documents it
        cls,
        pattern: str = "gpt2",
        special_tokens: Iterable[str] = (),
        normalizer: str | None = None,
    ) -> Splitter:
        resolve_pattern(pattern)
        tokens = tuple(check_special_tokens(special_tokens))
        if normalizer is not None:
            normalization.check_normalizer(normalizer)
        return super().__new__(cls, pattern, tokens, normalizer)

    @classmethod
    def of(cls, splitter: Splitter | None) -> Splitter:
        """Return `splitter`, or the default `Splitter()` if it is None.

        Raises:
            TypeError: If `splitter` is neither a Splitter nor None.
        """
        if splitter is None:
            return cls()
        if not isinstance(splitter, Splitter):
            raise InputTypeError(
                "must be a Splitter, such as Splitter(special_tokens=['<|endoftext|>']), got "
                f"{short_repr(splitter)}",
                argument="splitter",
            )
        return splitter

    @property
    def expression(self) -> str:
        """The pattern as a regular expression."""
        return resolve_pattern(self.pattern)

    @property
    def has_scanner(self) -> bool:
        """Whether the compiled scanner is built and supports the pattern."""
        return has_scanner(self.pattern)

    @property
    def safe_cuts(self) -> safe_cuts.SafeCuts:
        """Finder of offsets where text can be cut without changing its pre-tokens."""
        return _safe_cuts(self.special_tokens, self.pattern, self.normalizer)

    def split(self, text: str) -> Iterator[str]:
        """Yield the pre-tokens of a text, in order, without special tokens."""
        for segment, is_special in self.split_special_tokens(text):
            if not is_special:
                yield from self.pretokenize(normalization.normalized(segment, self.normalizer))

    def split_special_tokens(self, text: str) -> Iterator[tuple[str, bool]]:
        """Yield `(segment, is_special)` from left to right; see `split_special_tokens`."""
        return split_special_tokens(text, self.special_tokens)

    def pretokenize(self, text: str) -> Iterator[str]:
        """Return an iterator over the pre-tokens of a normalized text without special tokens."""
        return pretokenize(text, self.pattern)


def has_scanner(pattern: str) -> bool:
    """Return whether compiled code can split text with this pattern (name or expression).

    This requires that the extensions are built and that the pattern compiles (see `find_program`).
    """
    return _scanner is not None and (
        pattern_name(pattern) is not None or split_program.find_program(pattern) is not None
    )


def pretokenize(text: str, pattern: str = "gpt2") -> Iterator[str]:
    """Return an iterator over the pre-tokens of a text without special tokens, in order.

    Each match of the pattern is a pre-token, and so is the text between two matches, unless the
    pattern is a sequence of splits that removes text (see `split_sequences.py`). Compiled code is
    used if the pattern compiles (see `find_program`), and `regex` otherwise. Both give the same
    result as `reference.pretokenize`.

    Args:
        text: Text to split. Cut out special tokens first with `split_special_tokens`.
        pattern: Name in PATTERNS, or regular expression.

    Raises:
        ValueError: If `resolve_pattern` rejects the pattern, or a search takes too long during
            iteration.
        TypeError: If `text` is not a str.

    Example:
        >>> from cs336_basics.splitting import pretokenize
        >>> list(pretokenize("It's 2026!", "llama3"))
        ['It', "'s", ' ', '202', '6', '!']
    """
    resolve_pattern(pattern)
    check_is_str(text)
    # The scanner reads UTF-8, which cannot represent surrogates.
    if has_scanner(pattern) and (text.isascii() or not _SURROGATE.search(text)):
        return _scanner.PreTokens(str(text), pattern)  # not a subclass, such as NumPy's str_
    return search_pretokens(text, pattern)


def search_pretokens(text: str, pattern: str) -> Iterator[str]:
    """Return an iterator over the pre-tokens that `regex` finds, in order.

    Raises:
        ValueError: If a search takes too long during iteration.
    """
    # With a time limit, the search takes 2.5 times as long. The named patterns do not need a limit.
    if name := pattern_name(pattern):
        return reference.pretokenize(text, SEARCHED.get(name, name))
    return _search(text, pattern)


def _search(text: str, pattern: str) -> Iterator[str]:
    """Yield the pre-tokens that `reference.pretokenize` yields, within SEARCH_TIMEOUT."""
    compiled = compile_pattern(resolve_pattern(pattern))
    if isinstance(compiled, SplitSequence):
        yield from (piece.text for piece in _pieces(text, pattern, compiled))
        return
    limit = _time_limit(text)
    # All ends are found before the first yield, so that the caller's own time does not count as
    # search time.
    ends = array("q")
    try:
        for match in compiled.finditer(text, timeout=limit):
            ends.extend(match.span())
    except TimeoutError:
        raise _too_slow(pattern, limit) from None
    ends.append(len(text))
    start = 0
    for end in ends:
        if end > start:
            yield text[start:end]
            start = end


def _pieces(text: str, pattern: str, compiled: SplitSequence) -> list[Piece]:
    limit = _time_limit(text)
    try:
        return compiled.pieces(text, limit)
    except TimeoutError:
        raise _too_slow(pattern, limit) from None


def _time_limit(text: str) -> float:
    return SEARCH_TIMEOUT + len(text) / 10_000


def _too_slow(pattern: str, limit: float) -> InputError:
    return InputError(
        f"pattern {short_repr(pattern)} took more than {limit:.3g} seconds to split a text",
        remedy="rewrite it without nested repetitions",
    )


def located_pretokens(text: str, pattern: str) -> Iterator[Piece]:
    """Yield the pre-tokens that `pretokenize` yields, with their places in the text.

    Raises:
        TypeError, ValueError: See `pretokenize`.
    """
    if changes_text(pattern):
        compiled = compile_pattern(resolve_pattern(pattern))
        assert isinstance(compiled, SplitSequence)
        yield from _pieces(text, pattern, compiled)
        return
    start = 0
    for word in pretokenize(text, pattern):
        yield Piece(word, range(start, start + len(word)))
        start += len(word)


def split_special_tokens(text: str, special_tokens: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield `(segment, is_special)` from left to right. Joining the segments restores `text`.

    If occurrences of special tokens overlap, the leftmost wins; at the same index, the longest
    wins. Empty segments are skipped.

    Raises:
        TypeError: If `special_tokens` is not an iterable of str.
        ValueError: If a special token is empty.

    Example:
        >>> from cs336_basics.splitting import split_special_tokens
        >>> list(split_special_tokens("one<|end|>two", ["<|end|>"]))
        [('one', False), ('<|end|>', True), ('two', False)]
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
def _safe_cuts(
    special_tokens: tuple[str, ...], pattern: str, normalizer: str | None
) -> safe_cuts.SafeCuts:
    return safe_cuts.SafeCuts(special_tokens, pattern, normalizer)


def check_is_str(text: object) -> None:
    """Raise TypeError if `text` is not a str."""
    if not isinstance(text, str):
        raise InputTypeError(
            f"must be a str, not {type(text).__name__}",
            argument="text",
            remedy="decode it first: text.decode('utf-8')" if isinstance(text, bytes) else "",
        )


def check_special_tokens(special_tokens: Iterable[str] | None) -> list[str]:
    """Check the special tokens and return them as a list. None becomes an empty list.

    Raises:
        TypeError: If `special_tokens` is a bare string (each character would become a special
            token), a mapping (the vocabulary stores the ids) or a set (which has no order), or an
            item is not a str.
        ValueError: If a special token is empty, repeated, longer than MAX_SPECIAL_TOKEN_LENGTH, or
            cannot be encoded as UTF-8.
    """
    if special_tokens is None:
        return []
    if isinstance(special_tokens, (str, bytes, Mapping, set, frozenset)) or not isinstance(
        special_tokens, Iterable
    ):
        raise InputTypeError(
            "must be a list of str in the order of their ids, such as ['<|endoftext|>'], got "
            f"{short_repr(special_tokens)}",
            argument="special_tokens",
        )
    tokens = list(special_tokens)
    seen: set[str] = set()
    for token in tokens:
        if not isinstance(token, str):
            raise InputTypeError(
                f"must contain only str, got {short_repr(token)} ({type(token).__name__})",
                argument="special_tokens",
            )
        if not token:
            raise InputError(
                "must not contain the empty string, which matches everywhere",
                argument="special_tokens",
            )
        if token in seen:
            raise InputError(
                f"must not contain {short_repr(token)} twice",
                argument="special_tokens",
                remedy="remove one",
            )
        num_bytes = len(utf8_of("special_tokens", token))
        if num_bytes > MAX_SPECIAL_TOKEN_LENGTH:
            raise InputError(
                f"must have at most {MAX_SPECIAL_TOKEN_LENGTH:,} bytes each, got {num_bytes:,} in "
                f"{short_repr(token)}",
                argument="special_tokens",
            )
        seen.add(token)
    return tokens
