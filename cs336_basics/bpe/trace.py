"""Traces: what each merge of a training took, and what it read and changed.

A trainer calls `BPE_Trainer.trace` with a MergeTrace after each merge; `trace_file` writes them to
a file. All stages fill the same columns, so that they can be compared. What a stage does not have
is 0: `naive` has no heap, `native` does not know which word a position belongs to.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Work(NamedTuple):
    """What one merge read and changed."""

    occurrences: int = 0
    """Occurrences of the pair that were merged, without repetition of words; the same in all
    stages."""
    words: int = 0
    """Words read; 0 in `native`."""
    positions: int = 0
    """Symbols of these words; in `memoryview` and `native`, entries of the list of occurrences
    (`native` also reads entries that no longer hold)."""
    pairs_searched: int = 0
    """Pairs compared to find the maximum; 0 in stages with a heap."""
    pairs_updated: int = 0
    """Additions to the count of a pair, and subtractions from it."""
    heap_entries: int = 0
    """Heap entries popped to find the pair, and entries pushed for new pairs; 0 without a heap."""


class MergeTrace(NamedTuple):
    """One merge of a training.

    The seconds are by phase, as in `BPE_Trainer.timings`. The first merge includes the time before
    it: setting up the words and counting their pairs. The last one includes building the
    vocabulary. Later seconds of counting occur in `naive`, which counts all pairs for every merge,
    and in `native`, when it counts them again below a lower threshold.
    """

    merge: int
    """Index of the merge, its rank."""
    left: bytes
    right: bytes
    pair_count: int
    """Occurrences of the pair in the text."""
    seconds_setting_up: float
    seconds_counting: float
    seconds_finding: float
    seconds_updating: float
    seconds_building: float
    work: Work

    @property
    def seconds(self) -> float:
        """Seconds of all phases together."""
        return (
            self.seconds_setting_up
            + self.seconds_counting
            + self.seconds_finding
            + self.seconds_updating
            + self.seconds_building
        )


Trace = Callable[[MergeTrace], object]

COLUMNS = (*MergeTrace._fields[:-1], *Work._fields)
"""The columns of a trace file, in order."""


@contextlib.contextmanager
def trace_file(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Trace]:
    """Return a function that writes each MergeTrace to a CSV file; pass it to a trainer as `trace`.

    The first line names the columns, COLUMNS. The tokens `left` and `right` are Python literals
    such as `b' the'`, which `ast.literal_eval` reads. The file appears, complete, when the block
    ends without an exception.

    Args:
        path: the file to write.
        overwrite: replace a file that exists.

    Raises:
        FileExistsError: the file exists, and `overwrite` is False.
        OSError: it cannot be written.
    """
    # (Most trainings are not traced, and do without these imports.)
    import csv

    from cs336_basics._support.files import atomic_writer

    if os.path.exists(path) and not overwrite:
        raise FileExistsError(
            f"{os.fspath(path)} exists: name another file for the trace, or pass overwrite=True"
        )
    with atomic_writer(path, "w") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)

        def write(merge: MergeTrace) -> None:
            seconds = (format(number, ".9f") for number in merge[4:9])
            tokens = repr(merge.left), repr(merge.right)
            rows.writerow((merge.merge, *tokens, merge.pair_count, *seconds, *merge.work))

        yield write
