"""Traces: the time and the work of each merge in a training run.

A trainer yields each merge with its work. The recorder adds the time and calls `BPE_Trainer.trace`
with a MergeTrace for each merge. The callback of `trace_file` writes each MergeTrace to a file. All
trainers fill in the same columns, so their traces can be compared. Columns that do not apply to a
trainer are 0: `naive` has no heap, and `native` does not record which word a position belongs to.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from cs336_basics._support.arguments import checked_bool
from cs336_basics._support.errors import OutputExistsError
from cs336_basics.bpe.reference import Pair, Symbols, merge_pair
from cs336_basics.bpe.rules import Rules


class Work(NamedTuple):
    """Amount of data that a merge reads and changes."""

    occurrences: int = 0
    """Merged occurrences of the pair in the distinct words. All trainers report the same number."""
    words: int = 0
    """Words read. Always 0 in `native`."""
    positions: int = 0
    """Symbols in these words. If the trainer's `read_unit` is "occurrence", entries read from the
    pair's list of occurrences, including stale entries in `native`."""
    pairs_searched: int = 0
    """Pairs compared to find the maximum. Always 0 in trainers with a heap."""
    pairs_updated: int = 0
    """Additions to and subtractions from pair counts."""
    heap_entries: int = 0
    """Heap entries popped to find the pair or pushed for new pairs. Always 0 without a heap."""

    @classmethod
    def of(
        cls,
        words: Sequence[Symbols],
        pair: Pair,
        rules: Rules,
        *,
        pairs_searched: int = 0,
        heap_entries: int = 0,
        subtracts: bool = False,
    ) -> Work:
        """Return the work of merging a pair in whole words.

        Args:
            words: Words that were read, before the merge.
            subtracts: Whether the pairs of these words were subtracted from the counts, and those
                of the merged words added. Otherwise, the pairs of these words were counted.
        """
        merged = [merge_pair(symbols, pair) for symbols in words]
        num_symbols = sum(map(len, words))
        counted = itertools.chain(words, merged if subtracts else ())
        return cls(
            occurrences=num_symbols - sum(map(len, merged)),
            words=len(words),
            positions=num_symbols,
            pairs_searched=pairs_searched,
            pairs_updated=sum(1 for symbols in counted for _ in rules.pairs(symbols)),
            heap_entries=heap_entries,
        )


Merge = tuple[Pair, int, Callable[[], Work]]
"""A merge, as `BPE_Trainer.learn` yields it: the pair, its count in the text, and a function that
returns the work of the merge. Only a trace calls this function, before it asks for the next merge.
"""


class MergeTrace(NamedTuple):
    """One merge in a training run.

    Seconds are split by phase, as in `BPE_Trainer.timings`. The first merge includes the time to
    set up words and count pairs; the last merge includes the time to build the vocabulary. `naive`
    counts pairs for every merge, and `native` counts them again when it lowers its threshold.
    """

    merge: int
    """Rank of the merge."""
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
        """Total time of all phases, in seconds."""
        return sum(self[4:9])


Trace = Callable[[MergeTrace], object]

COLUMNS = (*MergeTrace._fields[:-1], *Work._fields)
"""Columns of a trace file in order."""


@contextlib.contextmanager
def trace_file(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Trace]:
    """Yield a `trace` callback that writes each MergeTrace to a CSV file.

    The first line contains the names in COLUMNS. The tokens `left` and `right` are Python literals
    such as `b' the'`, which you can read with `ast.literal_eval`. The complete file appears when
    the `with` block ends without an exception.

    Args:
        path: CSV file.
        overwrite: Whether to replace an existing file.

    Raises:
        TypeError: If `overwrite` is not a bool.
        FileExistsError: If the file exists and `overwrite` is False.
        OSError: If the file cannot be written.
    """
    # Most training runs are not traced and do not need these imports.
    import csv

    from cs336_basics._support.files import atomic_writer

    if not checked_bool("overwrite", overwrite) and os.path.exists(path):
        raise OutputExistsError(f"{os.fspath(path)} exists")
    with atomic_writer(path, "w") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)

        def write(merge: MergeTrace) -> None:
            seconds = (format(number, ".9f") for number in merge[4:9])
            tokens = repr(merge.left), repr(merge.right)
            rows.writerow((merge.merge, *tokens, merge.pair_count, *seconds, *merge.work))

        yield write
