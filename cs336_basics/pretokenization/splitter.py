"""Cut special tokens out of a text, and split what is left into pre-tokens."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator

from cs336_basics.pretokenization import reference
from cs336_basics.pretokenization.patterns import resolve_pattern

try:
    from cs336_basics.pretokenization import _scanner
except ImportError:  # not built: all goes through `regex`
    _scanner = None  # type: ignore[assignment]

__all__ = ["check_special_tokens", "has_scanner", "pretokenize", "split_special_tokens"]


def has_scanner(pattern: str) -> bool:
    """Tell whether the compiled scanner is built and knows this pattern (name or expression)."""
    return _scanner is not None and _scanner.scanned_pattern(pattern) is not None


def pretokenize(text: str, pattern: str = "gpt2") -> Iterator[str]:
    """Return an iterator over the pre-tokens of a text that holds no special token, in order.

    The named patterns have a compiled scanner, every other one goes through `regex`; the result is
    that of `reference.pretokenize` in any case.

    Args:
        text: the text; cut special tokens out first with `split_special_tokens`.
        pattern: a name in PATTERNS or a regular expression.

    Raises:
        ValueError: see `resolve_pattern`.
    """
    resolve_pattern(pattern)
    # UTF-8, and so the scanner, knows no lone surrogates.
    if has_scanner(pattern) and (text.isascii() or not _LONE_SURROGATE.search(text)):
        return _scanner.pretokenize_text(text, pattern)
    return reference.pretokenize(text, pattern)


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def check_special_tokens(special_tokens: Iterable[str] | None) -> list[str]:
    """Return the special tokens as a list (None: none), after refusing what must be a mistake.

    Raises:
        TypeError: a bare string in place of a list (its characters would each become a special
            token), a set (it has no order), or an item that is not a string.
        ValueError: an empty or a repeated special token, or one that UTF-8 cannot hold.
    """
    if isinstance(special_tokens, (str, bytes)):
        raise TypeError(
            f"special_tokens is the string {special_tokens!r}: pass a list, [{special_tokens!r}]"
        )
    if isinstance(special_tokens, (set, frozenset)):
        raise TypeError(
            f"special_tokens is a set, {special_tokens!r}: pass a list, since the ids follow its "
            "order, and a set has none"
        )
    if special_tokens is None:
        return []
    tokens = list(special_tokens)
    seen: set[str] = set()
    for token in tokens:
        if not isinstance(token, str):
            raise TypeError(f"special token {token!r} is a {type(token).__name__}, not a str")
        if not token:
            raise ValueError("special token '' is empty: it would match everywhere")
        if token in seen:
            raise ValueError(f"special token {token!r} is given twice")
        try:
            token.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(f"special token {token!r} is not valid Unicode: {error}") from error
        seen.add(token)
    return tokens


def split_special_tokens(text: str, special_tokens: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield `(piece, is_special)` from left to right; joining the pieces gives `text` again.

    Where special tokens overlap, the one that starts first wins, and of several that start at the
    same place the longest. Empty pieces are left out.
    """
    tokens = tuple(special_tokens)
    if not tokens:
        if text:
            yield text, False
        return
    end = 0
    for match in _special_token_regex(tokens).finditer(text):
        if match.start() > end:
            yield text[end : match.start()], False
        yield match.group(), True
        end = match.end()
    if end < len(text):
        yield text[end:], False


@functools.lru_cache(maxsize=32)
def _special_token_regex(special_tokens: tuple[str, ...]) -> re.Pattern[str]:
    # `|` takes the first alternative that matches, so the longest must stand first.
    longest_first = sorted(special_tokens, key=len, reverse=True)
    return re.compile("|".join(re.escape(token) for token in longest_first))
