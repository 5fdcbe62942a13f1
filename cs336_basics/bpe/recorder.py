"""Recorder: the clocks, the progress and the trace of a training, outside the algorithm.

It puts them around the three steps of a trainer in Python, `count_pairs`, `find_best` and `merge`.
A compiled trainer has clocks of its own, and tells the recorder what they say.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from cs336_basics._support.progress import progress_bar
from cs336_basics.bpe.reference import Pair
from cs336_basics.bpe.trace import MergeTrace, Trace
from cs336_basics.bpe.work import WorkCounter

PHASES = ("reading and counting", "counting pairs", "finding the maximum", "updating", "total")
"""The keys of `BPE_Trainer.timings`, in seconds of wall time."""


class Recorder:
    """Measures one training.

    Args:
        trace: see `BPE_Trainer`.
        first_rank: the rank of the first merge.

    Attributes:
        timings: phase -> seconds so far.
        advance: called with the number of merges that were learned since the last call.
    """

    def __init__(self, trace: Trace | None = None, first_rank: int = 0) -> None:
        self.trace = trace
        self.first_rank = first_rank
        self.timings = dict.fromkeys(PHASES, 0.0)
        self.advance: Callable[[int], object] = lambda num_merges: None

    @contextlib.contextmanager
    def clock(self, phase: str) -> Iterator[None]:
        """Add the seconds of a block to a phase."""
        start = time.perf_counter()
        yield
        self.timings[phase] += time.perf_counter() - start

    @contextlib.contextmanager
    def progress_bar(self, show: bool, num_merges: int) -> Iterator[None]:
        """Show the progress of a block that learns merges."""
        with progress_bar(show, total=num_merges, unit=" merges", desc="learning merges") as bar:
            self.advance = bar.update
            yield

    def measure(self, loop: Any) -> None:
        """Put clocks, progress and trace around the steps of a trainer, a copy that learns once."""
        loop.count_pairs = self._timed("counting pairs", loop.count_pairs)
        loop.find_best = self._timed("finding the maximum", loop.find_best)
        loop.merge = self._advancing(self._timed("updating", loop.merge))
        if self.trace is not None:
            tracer = _Tracer(self, self.trace, loop)
            loop.find_best, loop.merge = tracer.find_best, tracer.merge

    def _timed(self, phase: str, step: Callable[..., Any]) -> Callable[..., Any]:
        # A late merge takes 20 microseconds, of which the clocks must not take a noticeable share.
        clock, timings = time.perf_counter, self.timings

        def timed(*arguments: Any) -> Any:
            start = clock()
            result = step(*arguments)
            timings[phase] += clock() - start
            return result

        return timed

    def _advancing(self, merge: Callable[..., Any]) -> Callable[..., Any]:
        advance = self.advance

        def advancing(*arguments: Any) -> Any:
            result = merge(*arguments)
            advance(1)
            return result

        return advancing


class _Tracer:
    """The steps of a trainer with a MergeTrace after each merge; its time is in no phase."""

    def __init__(self, recorder: Recorder, trace: Trace, loop: Any) -> None:
        self._recorder, self._trace = recorder, trace
        self._steps = loop.find_best, loop.merge
        self._work = WorkCounter(loop)
        self._rank = recorder.first_rank
        self._last: dict[str, float] = {}  # the timings at the merge before

    def find_best(self, pair_counts: dict[Pair, int]) -> Pair | None:
        if not self._last:
            self._last = dict(self._recorder.timings)
        self._pair_counts = pair_counts
        best: Pair | None = self._steps[0](self._work.watched(pair_counts))
        return best

    def merge(self, words: Any, best: Pair, *state: Any) -> Any:
        count = self._pair_counts[best]
        work = self._work.of_merge(words, best, self._pair_counts)
        result = self._steps[1](words, best, *state)
        timings = self._recorder.timings
        counting, finding, updating = (timings[p] - self._last[p] for p in PHASES[1:4])
        self._last = dict(timings)
        self._trace(MergeTrace(self._rank, *best, count, counting, finding, updating, work))
        self._rank += 1
        return result
