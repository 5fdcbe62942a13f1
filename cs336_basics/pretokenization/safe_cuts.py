"""SafeCuts: where UTF-8 bytes can be cut without changing how they are split.

There are two kinds of safe cut:

- at the end of a special token: special tokens are cut out first, so no pre-token crosses them;
- inside a text, for `gpt2` and `cl100k`: between a character that is not white space and an ASCII
  space (for `gpt2` also a line feed). No alternative of the two matches white space anywhere but
  at its beginning or after other white space, so a pre-token always ends there. The lookahead
  `\\s+(?!\\S)` only looks past white space, so the text on the left is split the same without the
  text on the right; and neither has a lookbehind. For every other pattern that can be compiled,
  its table tells between which characters the same holds (see `SplitProgram.safe_cuts`).

In both cases, no occurrence of a special token may lie across the cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from cs336_basics._support.lazy import LazyModule
from cs336_basics.pretokenization.patterns.named_patterns import pattern_name, resolve_pattern
from cs336_basics.pretokenization.token_finder import token_finder

if TYPE_CHECKING:
    from cs336_basics.pretokenization.patterns import split_program
else:  # gpt2 and cl100k do without
    split_program = LazyModule("cs336_basics.pretokenization.patterns.split_program")

# What may follow a character that is not white space at a safe cut. cl100k lets a pre-token run
# from punctuation into line ends (`[^\s\p{L}\p{N}]+[\r\n]*`), so only a space is safe there.
_SAFE_FOLLOWERS = {"gpt2": b" \n", "cl100k": b" "}

# The white space beyond ASCII, in UTF-8, as `\s` of the `regex` module has it.
_WIDE_WHITE_SPACE = tuple(
    chr(code).encode()
    for code in (0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
)


class SafeCuts:
    """Finds safe cuts in bytes.

    Args:
        special_tokens: the special tokens that are cut out first.
        pattern: the split pattern. With one that cannot be compiled, the ends of special tokens are
            the only cuts.
    """

    def __init__(self, special_tokens: Iterable[str] = (), pattern: str = "gpt2") -> None:
        tokens = tuple(token.encode() for token in special_tokens)
        self._special = token_finder(tokens) if tokens else None
        self.margin = 4 + (2 * self._special.longest if self._special else 0)
        """Bytes on each side of an offset that must be known to tell whether it is a safe cut."""
        # A special token that holds U+FFFD also matches where invalid bytes were replaced, which
        # the bytes do not show: such a text is never cut.
        self._never = any("\N{REPLACEMENT CHARACTER}".encode() in token for token in tokens)
        name = pattern_name(resolve_pattern(pattern))
        followers = _SAFE_FOLLOWERS.get(name) if name else None
        self._program = None if followers else split_program.find_program(pattern)
        self._inside: re.Pattern[bytes] | None = None
        if followers:
            self._inside = re.compile(rb"[!-~\x80-\xff](?=[" + followers + rb"])")
        elif self._program:
            self._inside = _candidates(self._program)
        self.may_exist = not self._never and (self._special or self._inside) is not None
        """Whether any text has safe cuts."""

    def after_special_token(self, data: bytes, start: int, stop: int) -> int | None:
        """Return the first cut at the end of a special token, start <= cut <= stop, or None.

        `data` must hold `margin` bytes (or all there are) before `start` and after `stop`.
        """
        if self._special is None or self._never:
            return None
        offset = max(0, start - self.margin // 2)
        while found := self._special.search(data, offset):
            begin, end = found
            if end > stop:
                return None
            # An occurrence is surely matched when no other lies across either of its ends.
            if end >= start and not (self._is_crossed(data, begin) or self._is_crossed(data, end)):
                return end
            offset = begin + 1
        return None

    def inside_text(self, data: bytes, start: int, stop: int) -> int | None:
        """Return the first cut between two pre-tokens, start <= cut <= stop, or None.

        `data` must hold `margin` bytes (or all there are) before `start` and after `stop`.
        """
        if self._inside is None or self._never:
            return None
        for match in self._inside.finditer(data, max(0, start - 1)):
            cut = match.end()
            if cut > stop:
                return None
            if self._is_between_words(data, cut) and not self._is_crossed(data, cut):
                return cut
        return None

    def _is_between_words(self, data: bytes, cut: int) -> bool:
        """Return whether one of the candidates is a safe cut of the pattern."""
        if self._program is None:
            return not data.endswith(_WIDE_WHITE_SPACE, max(0, cut - 3), cut)
        character = _last_character(data[max(0, cut - 4) : cut])
        return character is not None and bool(
            self._program.safe_cuts[
                self._program.column_of(character), self._program.column_of(chr(data[cut]))
            ]
        )

    def last(self, data: bytes, start: int) -> int | None:
        """Return a late cut, start <= cut, that is safe whatever follows `data`, or None.

        For streams: the bytes before the cut can be split at once. `data` is searched backwards in
        steps, so the bytes before the cut are not searched at all.
        """
        stop = len(data) - self.margin
        upper = stop
        step = 256
        while upper > start:
            lower = max(start, upper - step)
            found = self._last_between(data, lower, upper)
            if found is not None:
                return found
            upper, step = lower, step * 2
        return None

    def _last_between(self, data: bytes, start: int, stop: int) -> int | None:
        latest: int | None = None
        for find in (self.inside_text, self.after_special_token):
            cut = find(data, max(start, 1), stop)
            while cut is not None:
                latest = max(cut, latest or 0)
                cut = find(data, cut + 1, stop)
        return latest

    def _is_crossed(self, data: bytes, cut: int) -> bool:
        """Return whether an occurrence of a special token starts before `cut` and ends after it."""
        return self._special is not None and self._special.is_crossed(data, cut)


class SafeCutBuffer:
    """The end of a text that cannot be split yet, because what follows is unknown.

    Args:
        cuts: finds where the text can be cut.
        read_ahead: bytes that are added before a cut is searched for.
    """

    def __init__(self, cuts: SafeCuts, read_ahead: int = 0) -> None:
        self._cuts = cuts
        self._read_ahead = read_ahead
        self._waiting = bytearray()
        self._searched = 0  # waiting[:searched] holds no safe cut

    def add(self, data: bytes) -> bytes:
        """Add bytes; return those that can be split by themselves, b"" if there are none."""
        waiting, margin = self._waiting, self._cuts.margin
        waiting += data
        if len(waiting) - self._searched < self._read_ahead + margin:
            return b""
        # Only the new bytes are searched: a text without a cut must not take n^2 time.
        origin = max(0, self._searched - margin)
        cut = self._cuts.last(bytes(waiting[origin:]), self._searched - origin)
        independent = b""
        if cut is not None:
            independent = bytes(waiting[: origin + cut])
            del waiting[: origin + cut]
        self._searched = max(0, len(waiting) - margin)
        return independent

    @property
    def num_waiting(self) -> int:
        """The number of bytes that wait."""
        return len(self._waiting)

    def rest(self) -> bytes:
        """Return the bytes that wait, where the text ends."""
        return bytes(self._waiting)


def _candidates(program: split_program.SplitProgram) -> re.Pattern[bytes] | None:
    """Return what finds the byte before a cut that may be safe: ASCII follows it."""
    columns = [program.column_of(chr(code)) for code in range(128)]
    # What may be before the cut (ASCII, and None for any other character) -> what follows.
    afters: dict[frozenset[int | None], list[int]] = {}
    for after in range(128):
        column = columns[after]
        safe: set[int | None] = {c for c in range(128) if program.safe_cuts[columns[c], column]}
        if program.safe_cuts[:, column].any():
            safe.add(None)
        afters.setdefault(frozenset(safe), []).append(after)
    options = []
    for before, following in afters.items():
        codes = sorted(code for code in before if code is not None)
        found = b"".join(rb"\x%02x" % code for code in codes)
        found += rb"\x80-\xff" if None in before else b""
        if found:
            follow = b"".join(rb"\x%02x" % after for after in following)
            options.append(b"[" + found + b"](?=[" + follow + b"])")
    return re.compile(b"|".join(options)) if options else None


def _last_character(data: bytes) -> str | None:
    """Return the last character of bytes, None if they do not end with one in valid UTF-8."""
    for length in range(1, len(data) + 1):
        if data[-length] & 0xC0 != 0x80:  # it begins a character
            try:
                character = data[-length:].decode()
            except UnicodeDecodeError:
                return None
            return character if len(character) == 1 else None
    return None
