"""Jobs: work that is done piece by piece. A job says what is done, an executor says where."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

Piece = TypeVar("Piece")
Partial = TypeVar("Partial")
PieceTaken = TypeVar("PieceTaken", contravariant=True)
PartialMade = TypeVar("PartialMade", covariant=True)


class Job(Protocol[PieceTaken, PartialMade]):
    """Work on pieces that do not depend on each other.

    Worker processes and Ray pickle the job once and its pieces and partial results one by one.
    """

    def run(self, piece: PieceTaken, /) -> PartialMade:
        """Return the partial result of a piece."""


class Reduction(Protocol[PieceTaken, Partial]):
    """A job whose partial results are combined into one result of the same type."""

    def run(self, piece: PieceTaken, /) -> Partial:
        """Return the partial result of a piece."""

    def combine(self, partials: Iterable[Partial], /) -> Partial:
        """Return the combined result of consecutive pieces, given in their order.

        Results may be combined again, so this operation must be associative. The partial results
        may not fit in memory together, so keep only a few of them at a time.
        """


@functools.lru_cache(maxsize=1)
def unpickled(pickled: bytes) -> Any:
    """Unpickle a job. Each worker caches the last result, because a job may be large."""
    import pickle

    return pickle.loads(pickled)
