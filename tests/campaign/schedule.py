"""How the rows of a campaign share its time."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from tests.campaign.row import Row


class Schedule:
    """The rows that wait, in their order, and the time that they get.

    A row gets its share of the time that is left, so what a finite row leaves goes to the rows
    after it. Finite rows come first, the shortest ones at the beginning; random rows can use any
    time.

    Args:
        rows: The rows.
        end: End of the campaign, on `time.monotonic`'s clock.
        jobs: Number of rows that run at a time.
    """

    def __init__(self, rows: Sequence[Row], end: float, jobs: int) -> None:
        self._waiting = sorted(rows, key=lambda row: (row.cases is None, row.share))
        self._end = end
        self._jobs = jobs
        self._ends: dict[str, float] = {}
        self._lock = threading.Lock()

    def next(self) -> tuple[Row, float] | None:
        """Return the next row and its seconds, or None if no row waits."""
        with self._lock:
            if not self._waiting:
                return None
            now = time.monotonic()
            left = max(0, self._end - now)
            reserved = sum(max(0, end - now) for end in self._ends.values())
            shares = sum(row.share for row in self._waiting)
            row = self._waiting.pop(0)
            seconds = min(left, max(0, self._jobs * left - reserved) * row.share / shares)
            self._ends[row.name] = now + seconds
            return row, seconds

    def finished(self, row: Row) -> None:
        """Note that a row has finished."""
        with self._lock:
            del self._ends[row.name]
