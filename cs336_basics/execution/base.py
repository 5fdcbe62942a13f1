"""Executor: the code that all executors share.

An executor yields the partial results of a job in the order of the pieces, whichever worker is
done first. It reads the pieces only as they are needed.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Generator, Iterable

from cs336_basics.execution.jobs import Job, Partial, Piece, Reduction


def ignore(piece: object) -> None:
    """Do nothing. The default callback for pieces that are done."""


class Executor(abc.ABC):
    """Runs jobs."""

    def map_ordered(
        self,
        job: Job[Piece, Partial],
        pieces: Iterable[Piece],
        done: Callable[[Piece], object] = ignore,
    ) -> Generator[Partial, None, None]:
        """Yield the partial result of each piece, in order.

        Closing the generator stops the work.

        Args:
            job: Job to run.
            pieces: Pieces, read only a few ahead of the results.
            done: Callback invoked with each piece when it is done.

        Raises:
            Exception: Any exception that the job raises.
            RunError: If a worker process, or every machine, is lost.
        """
        return self._run(job, pieces, done)

    @abc.abstractmethod
    def _run(
        self, job: Job[Piece, Partial], pieces: Iterable[Piece], done: Callable[[Piece], object]
    ) -> Generator[Partial, None, None]:
        """Do the work of `map_ordered`."""

    def reduce(
        self,
        job: Reduction[Piece, Partial],
        pieces: Iterable[Piece],
        done: Callable[[Piece], object] = ignore,
    ) -> Partial:
        """Return the combined result of all pieces. See `map_ordered`."""
        with contextlib.closing(self.map_ordered(job, pieces, done)) as partials:
            return job.combine(partials)
