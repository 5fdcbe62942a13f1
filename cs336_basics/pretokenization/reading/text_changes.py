"""TextChanges: what reading and splitting a text changed, so that it can be reported.

Bytes that are not UTF-8 are read as U+FFFD, and what a split pattern does not match is dropped.
Both are wanted at times; neither should happen unnoticed. Counting and encoding add up what they
changed and warn once, at their end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cs336_basics._support.messages import short_repr
from cs336_basics._support.warnings import warn
from cs336_basics.pretokenization.reading.encodings import guess_encoding
from cs336_basics.pretokenization.reading.storage import is_url, open_path
from cs336_basics.pretokenization.reading.utf8 import count_invalid

SAMPLE_SIZE = 1 << 13
"""Bytes from which an encoding is guessed."""


@dataclass
class Replaced:
    """Sequences of bytes that are not UTF-8 and were read as U+FFFD.

    Attributes:
        sequences: their number, as Python's `decode` counts them.
        num_bytes: the bytes of all of them.
        first: where the first one is: an offset in bytes, or words such as "at byte 3 of row 5".
        sample: text around the first one, if it cannot be read again from a file of plain text.
    """

    sequences: int
    num_bytes: int
    first: int | str
    sample: bytes = b""


@dataclass
class TextChanges:
    """What reading and splitting changed; of several files, and added up over chunks.

    Attributes:
        num_bytes: size of the text that was read.
        num_dropped: bytes that the split pattern did not match.
        replaced: the name of a file, or "" for text in memory -> what was replaced in it.
    """

    num_bytes: int = 0
    num_dropped: int = 0
    replaced: dict[str, Replaced] = field(default_factory=dict)

    def add(self, other: TextChanges) -> None:
        """Add the changes of text that follows."""
        self.num_bytes += other.num_bytes
        self.num_dropped += other.num_dropped
        for name, found in other.replaced.items():
            self.add_replaced(name, found)

    def add_replaced(self, name: str, found: Replaced) -> None:
        """Add sequences that were replaced in a file."""
        if not found.sequences:
            return
        before = self.replaced.get(name)
        if before is None:
            self.replaced[name] = found
            return
        first, sample = before.first, before.sample
        if isinstance(first, int) and isinstance(found.first, int) and found.first < first:
            first, sample = found.first, found.sample
        self.replaced[name] = Replaced(
            before.sequences + found.sequences, before.num_bytes + found.num_bytes, first, sample
        )

    def add_files(self, files: Iterable[tuple[str, Sequence[int]]]) -> None:
        """Add what compiled code replaced: pairs of name and (sequences, bytes, first offset)."""
        for name, (sequences, num_bytes, first) in files:
            self.add_replaced(name, Replaced(sequences, num_bytes, first))

    def warn(self, pattern: str, done: str) -> None:
        """Warn of what was changed; do nothing if nothing was.

        Args:
            pattern: the split pattern.
            done: what was not done with dropped text, such as "counted".
        """
        if self.replaced:
            warn(self._replaced_message())
        if self.num_dropped:
            warn(dropped_message(pattern, self.num_dropped, self.num_bytes, done))

    def _replaced_message(self) -> str:
        name, most = max(self.replaced.items(), key=lambda item: item[1].num_bytes)
        first = f"at offset {most.first:,}" if isinstance(most.first, int) else most.first
        total = sum(found.sequences for found in self.replaced.values())
        num_bytes = sum(found.num_bytes for found in self.replaced.values())
        others = len(self.replaced) - 1
        message = (
            f"the text is not all UTF-8: {total:,} sequence{'s' * (total != 1)} of bytes, "
            f"{_share(num_bytes, self.num_bytes)} of the text, read as U+FFFD; the first"
            f"{f' of {name}' if name else ''} is {first}"
        )
        if others:
            message += f", and {others:,} other file{'s have' if others > 1 else ' has'} some"
        guess = guess_encoding(most.sample or _sample_of(name, most.first))
        return f"{message}; {guess}" if guess else message


def dropped_message(pattern: str, num_dropped: int, num_bytes: int, done: str) -> str:
    """Return the warning for text that a split pattern does not match."""
    return (
        f"the pattern {short_repr(pattern)} does not match {num_dropped:,} of {num_bytes:,} bytes "
        f"({_share(num_dropped, num_bytes)}) of the text, which are not {done}; with |(?s:.) at "
        "its end a pattern matches every character"
    )


def replaced_in(data: bytes, start: int = 0, row: str | None = None) -> Replaced:
    """Return what `data.decode(errors="replace")` replaces.

    Args:
        data: a text that is not valid UTF-8.
        start: its offset in its file.
        row: the row of which it is the text, None for a part of a file of text.
    """
    sequences, num_bytes, offset = count_invalid(data)
    if not sequences:
        return Replaced(0, 0, start)
    sample = data[max(0, offset - SAMPLE_SIZE // 4) :][:SAMPLE_SIZE]
    first = start + offset if row is None else f"at byte {offset:,} of {row}"
    return Replaced(sequences, num_bytes, first, sample)


def _sample_of(name: str, offset: int | str) -> bytes:
    """Return some text of a local file of plain text, from shortly before an offset."""
    if not name or is_url(name) or isinstance(offset, str):
        return b""
    try:
        with open_path(name) as file:
            file.seek(max(0, offset - SAMPLE_SIZE // 4))
            return file.read(SAMPLE_SIZE)
    except OSError:  # it vanished
        return b""


def _share(part: int, whole: int) -> str:
    """Return a share in percent, never rounded to 0 or 100 if it is not."""
    percent = 100 * part / max(whole, 1)
    if 0 < percent < 0.01:
        return "less than 0.01 %"
    if 99.99 < percent < 100:
        return "more than 99.99 %"
    return f"{percent:.2f} %"
