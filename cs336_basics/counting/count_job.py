"""CountJob: count the pre-tokens in the pieces of a corpus, wherever they are counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from cs336_basics.counting.word_counter import WordCounter
from cs336_basics.counting.word_counts import WordCounts
from cs336_basics.splitting.splitter import Splitter
from cs336_basics.text.cuts import Cuts
from cs336_basics.text.reading_record import ReadingRecord
from cs336_basics.text.sources import Source, TextBlock

Counted: TypeAlias = tuple[WordCounts, ReadingRecord]
"""The counts of some text, and the record of reading it."""


class SomeText(Protocol):
    """A part of a corpus: a `Piece`, or what is drawn from a file."""

    @property
    def source(self) -> Source:
        """The file."""

    def texts(self, cuts: Cuts) -> Iterator[TextBlock]:
        """Yield the texts; see `Piece.texts`."""


_MOST_ADDENDS = 16
"""Number of partial counts that are kept in memory before they are added up."""


@dataclass(frozen=True)
class CountJob:
    """Counts pieces independently and adds up the counts.

    Args:
        splitter: How to split the text.
        splitting: Name in SPLITTINGS.
    """

    splitter: Splitter
    splitting: str

    def run(self, piece: SomeText) -> Counted:
        """Return the counts of a piece.

        Raises:
            ValueError: If text is not valid UTF-8 (`errors="strict"`); see also `Piece.texts`.
            FileNotFoundError, OSError, ImportError: See `Piece.texts`.
        """
        counter, reading = WordCounter(self.splitter, self.splitting), ReadingRecord()
        count, errors = counter.count, piece.source.errors
        for block in piece.texts(self.splitter.safe_cuts):
            count(reading.utf8_of_block(block, errors))
        return counter.counts(), reading

    def combine(self, partials: Iterable[Counted]) -> Counted:
        """Return the sum of partial counts, with only a few of them in memory at a time."""
        addends: list[WordCounts] = []
        reading = ReadingRecord()
        for counts, found in partials:
            addends.append(counts)
            if len(addends) == _MOST_ADDENDS:
                addends = [WordCounts.combined(addends)]
            reading.add(found)
        return WordCounts.combined(addends), reading
