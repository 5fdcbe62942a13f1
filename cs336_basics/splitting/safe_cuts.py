"""Safe cuts: offsets where UTF-8 text can be cut without changing its pre-tokens.

There are two kinds:

- The end of a special token. Special tokens are cut out first, so no pre-token crosses them.
- The offset between two characters where a pre-token always ends, whatever comes before and after,
  such as a letter and a space in most patterns. The compiled pattern lists these pairs (see
  `SplitProgram.safe_cuts`). No pattern that compiles looks behind, so each side is split as if the
  other side did not exist.

An offset inside an occurrence of a special token is never a safe cut.

If text is normalized before it is split, a cut of the second kind must also stay between the same
two characters when the text on both sides is normalized. It is therefore after a character that is
normalized in every text, and before an ASCII character, which is never joined with a character
before it, and which must not be joined with a character after it.
"""

from __future__ import annotations

import itertools
import re
import string
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from cs336_basics.splitting.patterns import split_program
from cs336_basics.splitting.patterns.named_patterns import pattern_name
from cs336_basics.splitting.token_finder import token_finder
from cs336_basics.text import normalization

if TYPE_CHECKING:
    from cs336_basics.splitting._scanner import NamedCuts

    _Program = NamedCuts | split_program.SplitProgram
else:
    try:
        from cs336_basics.splitting._scanner import NamedCuts
    except ImportError:  # not built
        NamedCuts = None

_ASCII = frozenset(map(chr, range(128)))
_NEVER_JOINED = _ASCII - frozenset(string.ascii_letters + "<=>")
"""ASCII characters that no normalization joins with the character after them."""


class SafeCuts:
    """Finds safe cuts in bytes.

    Args:
        special_tokens: Special tokens that are cut out before the text is split.
        pattern: Split pattern. If it cannot be compiled, only the ends of special tokens are safe.
        normalizer: Name in NORMALIZERS: how the text between special tokens is normalized, or None.
    """

    def __init__(
        self,
        special_tokens: Iterable[str] = (),
        pattern: str = "gpt2",
        normalizer: str | None = None,
    ) -> None:
        tokens = tuple(token.encode() for token in special_tokens)
        self._special = token_finder(tokens) if tokens else None
        self.margin = 4 + (2 * self._special.longest if self._special else 0)
        """Number of bytes needed on each side of an offset to decide whether it is a safe cut."""
        # If a special token contains U+FFFD, the text is never cut, because replacing invalid bytes
        # can create occurrences of the token that are not visible in the original bytes.
        never = any("\N{REPLACEMENT CHARACTER}".encode() in token for token in tokens)
        self._program = _program_of(pattern)
        self._normalizer = normalizer
        after = _ASCII if normalizer is None else _NEVER_JOINED
        self._inside = _candidates(self._program, after) if self._program else None
        self.may_exist = not never and (self._special or self._inside) is not None
        """Whether safe cuts are possible with these special tokens and this pattern."""

    def first(self, data: bytes, start: int, stop: int) -> int | None:
        """Return the first cut in [start, stop], or None.

        `data` must include `margin` bytes before `start` and after `stop`, or reach the ends of the
        text.
        """
        if not self.may_exist:
            return None
        inside = next(self._inside_text(data, start, stop), None)
        limit = stop if inside is None else inside
        after = next(self._after_special_tokens(data, start, limit), None)
        return inside if after is None else after

    def _after_special_tokens(self, data: bytes, start: int, stop: int) -> Iterator[int]:
        """Yield the cuts in [start, stop] at the ends of special tokens."""
        if self._special is None:
            return
        # The first of several overlapping occurrences is certain to be cut out if it ends last.
        end = reach = 0  # end of the first occurrence, and of all that overlap
        found = self._special.search(data, max(0, start - self.margin))
        while end <= stop:
            if found is None or found[0] >= reach:
                if end == reach >= max(start, 1):
                    yield end
                if found is None:
                    return
                end = reach = found[1]
            reach = max(reach, found[1])
            found = self._special.search(data, found[0] + 1)

    def _inside_text(self, data: bytes, start: int, stop: int) -> Iterator[int]:
        """Yield the cuts in [start, stop] between two pre-tokens."""
        if self._inside is None:
            return
        found = (match.start() for match in self._inside.finditer(data, start))
        cuts: Iterator[int] = itertools.takewhile(stop.__ge__, found)
        cuts = (cut for cut in cuts if self._is_between_words(data, cut))
        yield from cuts if self._special is None else self._special.uncrossed(data, cuts)

    def _last_inside_text(self, data: bytes, start: int, stop: int) -> int:
        """Return the last cut in [start, stop] between two pre-tokens, or 0."""
        if self._inside is None:
            return 0
        # The byte after the cut may be the first one beyond `stop`.
        found = [match.start() for match in self._inside.finditer(data, start, stop + 1)]
        for cuts in (found[-1:], found):  # usually, the last candidate is a cut
            if self._special is not None:
                cuts = [*self._special.uncrossed(data, cuts)]
            for cut in reversed(cuts):
                if self._is_between_words(data, cut):
                    return cut
        return 0

    def _is_between_words(self, data: bytes, cut: int) -> bool:
        """Return whether a candidate found by `_inside` is a safe cut for the pattern."""
        assert self._program is not None
        before = data[max(0, cut - 4) : cut].decode("utf-8", "surrogateescape")[-1]
        if "\udc80" <= before <= "\udcff":  # not the end of a character
            return False
        return self._program.is_safe_cut(before, chr(data[cut])) and (
            self._normalizer is None or normalization.is_normal_character(before, self._normalizer)
        )

    def last(self, data: bytes, start: int) -> int | None:
        """Return the last cut at or after `start` that is safe no matter what follows, or None.

        In a stream, the bytes before this cut can be split immediately. The search runs backwards
        from the end of `data` in growing steps, so it visits few bytes before the cut.
        """
        upper = len(data) - self.margin
        step = 256
        while self.may_exist and upper > start:
            lower = max(start, upper - step)
            first = max(lower, 1)
            latest = max(self._after_special_tokens(data, first, upper), default=0)
            latest = max(latest, self._last_inside_text(data, max(first, latest), upper))
            if latest:
                return latest
            upper, step = lower, step * 2
        return None


def _program_of(pattern: str) -> _Program | None:
    """Return what tells whether a cut between two characters is safe, or None if nothing does."""
    name = pattern_name(pattern)
    if NamedCuts is not None and name is not None:
        return NamedCuts(name)
    return split_program.find_program(pattern)


def _candidates(program: _Program, before_characters: frozenset[str]) -> re.Pattern[bytes] | None:
    """Return a regex for the first byte after a possible cut, or None if no cut is possible.

    Only cuts before the given ASCII characters are considered. The regex starts with these
    characters, which `re` finds several times as fast as the bytes before them.
    """
    # Characters allowed before a cut (None: any non-ASCII character) -> characters after it.
    afters: dict[tuple[int | None, ...], list[int]] = {}
    for after in map(ord, sorted(before_characters)):
        before = program.ascii_before(after)
        afters.setdefault((*before, None) if before else (), []).append(after)
    options, all_following = [], b""
    for allowed, following in afters.items():
        if allowed:
            found = b"".join(rb"\x%02x" % code for code in allowed if code is not None)
            follow = b"".join(rb"\x%02x" % code for code in following)
            options.append(b"(?<=[" + found + rb"\x80-\xff][" + follow + b"])")
            all_following += follow
    if not options:
        return None
    return re.compile(b"[" + all_following + b"](?:" + b"|".join(options) + b")")


class SpaceCuts:
    """Finds safe cuts before whitespace, for text that passes through more stages than splitting.

    Args:
        pattern: Split pattern. If it cannot be compiled, there are no safe cuts.
        may_cut: Function that returns whether the other stages allow a cut between two characters:
            an ASCII character and ASCII whitespace.
    """

    margin = 4

    def __init__(self, pattern: str, may_cut: Callable[[str, str], bool]) -> None:
        program = _program_of(pattern)
        options = []
        for after in " \t\n\v\f\r":
            before = b"".join(
                rb"\x%02x" % code
                for code in range(0x21, 0x7F)
                if program and program.is_safe_cut(chr(code), after) and may_cut(chr(code), after)
            )
            if before:
                options.append(b"[" + before + rb"](?=\x%02x)" % ord(after))
        self._cut = re.compile(b"|".join(options)) if options else None
        self.may_exist = self._cut is not None
        """Whether safe cuts are possible."""

    def first(self, data: bytes, start: int, stop: int) -> int | None:
        """Return the first cut in [start, stop], or None; see `SafeCuts.first`."""
        found = self._cut.search(data, max(0, start - 1)) if self._cut else None
        return found.end() if found and found.end() <= stop else None

    def last(self, data: bytes, start: int) -> int | None:
        """Return the last cut at or after `start`, or None; see `SafeCuts.last`."""
        upper = len(data)
        step = 256
        while self._cut and upper > start:
            lower = max(start, upper - step)
            # The byte after the cut may be the first one beyond `upper`.
            found = list(self._cut.finditer(data, max(lower - 1, 0), upper + 1))
            if found:
                return found[-1].end()
            upper, step = lower, step * 2
        return None
