"""Byte ranges of a file that can be split into pre-tokens one by one, with the result of the whole.

A range may end in two kinds of places:

- at the end of a special token: special tokens are cut out first, so nothing crosses them;
- inside a text, between a character that is not white space and an ASCII space (for the GPT-2
  pattern also a line feed). No alternative of the named patterns matches white space anywhere but
  at its beginning or after other white space, so a pre-token always ends there; the look-ahead
  `\\s+(?!\\S)` only looks past white space, so the text on the left is split the same without the
  text on the right; and no pattern looks behind.

In both, no occurrence of a special token may lie across the place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import IO

from cs336_basics.pretokenization.patterns import pattern_name, resolve_pattern

DEFAULT_CHUNK_SIZE = 4 << 20
"""Bytes in a range: small enough for an even load and little memory, large enough to hide the
cost of handing it to another process."""

_WINDOW = 1 << 16

# What may follow a character that is not white space at a safe cut. cl100k lets a pre-token run
# from punctuation into line ends (`[^\s\p{L}\p{N}]+[\r\n]*`), so only a space is safe there.
_SAFE_FOLLOWERS = {"gpt2": b" \n", "cl100k": b" "}

# The white space beyond ASCII, in UTF-8, as `\s` of the `regex` module has it.
_WIDE_WHITE_SPACE = tuple(
    chr(code).encode()
    for code in (0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
)


class SafeCuts:
    """Finds the places where UTF-8 bytes can be cut without changing how they are split.

    Args:
        special_tokens: the special tokens that are cut out first.
        pattern: the split pattern. Only the named ones have safe places inside a text; with any
            other pattern the ends of special tokens are the only cuts.
    """

    def __init__(self, special_tokens: Iterable[str] = (), pattern: str = "gpt2") -> None:
        self._tokens = [token.encode() for token in special_tokens]
        longest = max(map(len, self._tokens), default=0)
        self.margin = 2 * longest + 4
        """Bytes on each side of a place that must be known before it can be called safe."""
        alternatives = sorted(self._tokens, key=len, reverse=True)
        self._special = (
            re.compile(b"|".join(re.escape(token) for token in alternatives))
            if alternatives
            else None
        )
        # A special token that holds U+FFFD also matches where invalid bytes were replaced, which
        # the bytes do not show: such a text is never cut.
        self._never = any("\N{REPLACEMENT CHARACTER}".encode() in token for token in self._tokens)
        name = pattern_name(resolve_pattern(pattern))
        followers = _SAFE_FOLLOWERS.get(name) if name else None
        self._inside = (
            re.compile(rb"[!-~\x80-\xff](?=[" + followers + rb"])") if followers else None
        )

    def after_special_token(self, data: bytes, start: int, stop: int) -> int | None:
        """Return the first cut p at the end of a special token, start <= p <= stop, or None.

        `data` must hold `margin` bytes (or all there are) before `start` and after `stop`.
        """
        if self._special is None or self._never:
            return None
        position = max(0, start - self.margin // 2)
        while match := self._special.search(data, position):
            if match.end() > stop:
                return None
            # An occurrence is surely matched when nothing lies across either of its ends.
            if (
                match.end() >= start
                and not self._crossed(data, match.start())
                and not self._crossed(data, match.end())
            ):
                return match.end()
            position = match.start() + 1
        return None

    def inside_text(self, data: bytes, start: int, stop: int) -> int | None:
        """Return the first cut p between two pre-tokens, start <= p <= stop, or None.

        `data` must hold `margin` bytes (or all there are) before `start` and after `stop`.
        """
        if self._inside is None or self._never:
            return None
        for match in self._inside.finditer(data, max(0, start - 1)):
            place = match.end()
            if place > stop:
                return None
            # (A slice: `endswith` with bounds would not see bytes before them, which is right.)
            white = data.endswith(_WIDE_WHITE_SPACE, max(0, place - 3), place)
            if not white and not self._crossed(data, place):
                return place
        return None

    def last(self, data: bytes, start: int) -> int | None:
        """Return a late cut p, start <= p, that holds whatever follows `data`; None if none does.

        For streams: bytes before the cut can be split at once. `data` is searched backwards in
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
            place = find(data, max(start, 1), stop)
            while place is not None:
                latest = max(place, latest or 0)
                place = find(data, place + 1, stop)
        return latest

    def _crossed(self, data: bytes, place: int) -> bool:
        """Tell whether an occurrence of a special token starts before `place` and ends after it."""
        return any(
            data.find(token, max(0, place - len(token) + 1), place + len(token) - 1) >= 0
            for token in self._tokens
        )


def chunk_ranges(
    path: str | os.PathLike[str],
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    special_tokens: Iterable[str] = (),
    pattern: str = "gpt2",
) -> Iterator[tuple[int, int]]:
    """Yield byte ranges `(start, end)` that cover a file in order and can be split one by one.

    A range is at least `chunk_size` bytes long (but the last) and ends at the first special token
    after that; where none comes within another `chunk_size` bytes, at the first safe place inside
    the text; where there is none either, it goes on until there is one, or to the end of the file.

    Raises:
        ValueError: `chunk_size` is not positive.
        FileNotFoundError, IsADirectoryError, PermissionError: as `open` says.
    """
    check_chunk_size(chunk_size)
    cuts = SafeCuts(special_tokens, pattern)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = 0
        while start < size:
            end = _first_cut(file, start + chunk_size, size, cuts, reach=chunk_size)
            yield start, end
            start = end


def _first_cut(file: IO[bytes], target: int, size: int, cuts: SafeCuts, reach: int) -> int:
    """Return the first place at or after `target` where a range may end."""
    if target >= size:
        return size
    origin = max(0, target - cuts.margin)
    inside: int | None = None
    searched, window = target, min(_WINDOW, reach)
    while True:
        file.seek(origin)
        data = file.read(target - origin + window + cuts.margin)
        known = origin + len(data)
        stop = size if known >= size else known - cuts.margin
        place = cuts.after_special_token(data, searched - origin, stop - origin)
        if place is not None:
            return origin + place
        if inside is None:
            inside = cuts.inside_text(data, searched - origin, stop - origin)
        if inside is not None and (window >= reach or stop == size):
            return origin + inside
        if stop == size:
            return size
        # Bytes up to `stop` are decided: the next, larger window only searches what is new.
        searched, window = max(searched, stop), window * 2


def next_cut(file: IO[bytes], target: int, cuts: SafeCuts) -> int:
    """Return the first place at or after `target` where an open file may be cut.

    It depends on the file and on `target` alone, so that processes which know nothing of each
    other agree on where the range of one ends and that of the next begins.
    """
    size = file.seek(0, os.SEEK_END)
    return _first_cut(file, target, size, cuts, reach=DEFAULT_CHUNK_SIZE)


def safe_blocks(blocks: Iterable[bytes], cuts: SafeCuts) -> Iterator[bytes]:
    """Regroup the blocks of a text so that each can be split by itself, with the same result."""
    waiting = bytearray()
    searched = 0  # waiting[:searched] holds no safe cut
    for block in blocks:
        waiting += block
        # Only what is new is searched: a text without a cut must not take n^2 time.
        origin = max(0, searched - cuts.margin)
        cut = cuts.last(bytes(waiting[origin:]), searched - origin)
        if cut is not None:
            yield bytes(waiting[: origin + cut])
            del waiting[: origin + cut]
        searched = max(0, len(waiting) - cuts.margin)
    if waiting:
        yield bytes(waiting)


def check_chunk_size(chunk_size: int) -> None:
    """Raise ValueError for a chunk size that is not positive."""
    if chunk_size < 1:
        raise ValueError(f"chunk_size is {chunk_size}: it must be at least one byte")


def read_range(path: str | os.PathLike[str], start: int, end: int) -> bytes:
    """Return the bytes [start, end) of a file.

    Raises:
        ValueError: the file ends before `end`: it has become shorter since the ranges were made.
    """
    with open(path, "rb") as file:
        file.seek(start)
        data = file.read(end - start)
    if len(data) != end - start:
        raise became_shorter(path, start + len(data), end)
    return data


def became_shorter(path: str | os.PathLike[str], size: int, expected: int) -> ValueError:
    """Return the error for a file that ends before bytes that it had when it was cut."""
    return ValueError(
        f"{os.fspath(path)} ended at byte {size:,} where bytes up to {expected:,} were expected: "
        "the file became shorter while it was read"
    )


def read_text_range(
    path: str | os.PathLike[str], start: int, end: int, errors: str = "replace"
) -> str:
    """Return the text of the bytes [start, end) of a file, read as UTF-8.

    Args:
        errors: `"replace"` reads bytes that are not UTF-8 as U+FFFD, `"strict"` refuses them.

    Raises:
        ValueError: (`"strict"`) a byte that is not UTF-8, named with its place in the file; or as
            `read_range`.
    """
    data = read_range(path, start, end)
    try:
        return data.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{os.fspath(path)}: byte {data[error.start]:#04x} at offset "
            f"{start + error.start:,} is not valid UTF-8; "
            'pass errors="replace" to read such bytes as U+FFFD'
        ) from None
