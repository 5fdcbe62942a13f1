"""Recorder: the clock, the progress bar and the trace of a training run.

It wraps the three steps of a Python trainer: `count_pairs`, `find_best` and `merge`. Compiled
trainers time their own steps and report the durations to the recorder.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from cs336_basics._support.progress import progress_bar
from cs336_basics.bpe.reference import Pair
from cs336_basics.bpe.trace import MergeTrace, Trace, Work
from cs336_basics.bpe.work import WorkCounter

PHASES = (
    "reading and counting",
    "setting up words",
    "counting pairs",
    "finding the maximum",
    "updating",
    "building the vocabulary",
    "total",
)
"""Keys of `BPE_Trainer.timings`, whose values are wall-clock seconds. "total" is the sum of the
other phases."""

_NOTHING: Mapping[str, float] = MappingProxyType({})


class Recorder:
    """Measures one training run.

    One clock runs throughout: each reading ends one phase and starts the next.

    Args:
        trace: Callback invoked with the MergeTrace of each merge; see `BPE_Trainer`.
        first_rank: Rank of the first merge.

    Attributes:
        timings: Seconds spent in each phase so far.
        advance: Function to call with the number of merges learned since the last call.
    """

    def __init__(self, trace: Trace | None = None, first_rank: int = 0) -> None:
        self.trace = trace
        self.timings = dict.fromkeys(PHASES, 0.0)
        self.advance: Callable[[int], object] = lambda num_merges: None
        self._rank = first_rank
        self._held_back: MergeTrace | None = None
        self._start = self._last = time.perf_counter()
        self._skipped = 0.0

    def lap(self, phase: str, measured: Mapping[str, float] = _NOTHING) -> None:
        """Add the time since the last clock reading to a phase.

        Args:
            phase: A name in PHASES.
            measured: Mapping from other phases to the seconds of this time that belong to them.
        """
        now = time.perf_counter()
        self.timings[phase] += now - self._last
        self._last = now
        for other, seconds in measured.items():
            self.timings[other] += seconds
            self.timings[phase] -= seconds

    def skip(self) -> None:
        """Exclude the time since the last clock reading from all phases."""
        now = time.perf_counter()
        self._skipped += now - self._last
        self._last = now

    @contextlib.contextmanager
    def progress_bar(self, show: bool, num_merges: int) -> Iterator[None]:
        """Show a progress bar while the body of the `with` statement learns merges."""
        with progress_bar(show, total=num_merges, unit=" merges", desc="learning merges") as bar:
            self.advance = bar.update
            yield

    def measure(self, loop: Any) -> None:
        """Wrap a trainer's steps to time them. `loop` must be a copy made for one run."""
        loop.count_pairs = self._timed("counting pairs", loop.count_pairs)
        loop.find_best = self._timed("finding the maximum", loop.find_best)
        merge, advance = self._timed("updating", loop.merge), self.advance

        def advancing(*arguments: Any) -> Any:
            result = merge(*arguments)
            advance(1)
            return result

        loop.merge = advancing
        if self.trace is not None:
            tracer = _Tracer(self, loop)
            loop.find_best, loop.merge = tracer.find_best, tracer.merge

    def traced(
        self,
        pair: Pair,
        count: int,
        counting: float,
        finding: float,
        updating: float,
        work: Work,
    ) -> None:
        """Add a merge to the trace."""
        assert self.trace is not None
        setting_up = 0.0
        if self._held_back is None:
            setting_up = self.timings["setting up words"]
        else:
            self.trace(self._held_back)
        seconds = (setting_up, counting, finding, updating, 0.0)
        self._held_back = MergeTrace(self._rank, *pair, count, *seconds, work)
        self._rank += 1
        self.skip()

    def finish(self) -> None:
        """End the last phase, set the total, and trace the last merge."""
        self.lap("building the vocabulary")
        self.timings["total"] = self._last - self._start - self._skipped
        if self.trace is not None and self._held_back is not None:
            building = self.timings["building the vocabulary"]
            self.trace(self._held_back._replace(seconds_building=building))

    def _timed(self, phase: str, step: Callable[..., Any]) -> Callable[..., Any]:
        # Late merges take about 20 microseconds each, so reading the clock must be cheap.
        clock, timings = time.perf_counter, self.timings

        def timed(*arguments: Any) -> Any:
            result = step(*arguments)
            now = clock()
            timings[phase] += now - self._last
            self._last = now
            return result

        return timed


class _Tracer:
    """Wraps a trainer's steps to record a MergeTrace for each merge."""

    def __init__(self, recorder: Recorder, loop: Any) -> None:
        self._recorder = recorder
        self._steps = loop.find_best, loop.merge
        self._work = WorkCounter(loop)
        self._last = dict.fromkeys(PHASES, 0.0)  # timings after the previous merge

    def find_best(self, pair_counts: dict[Pair, int]) -> Pair | None:
        self._pair_counts = pair_counts
        best: Pair | None = self._steps[0](self._work.watched(pair_counts))
        return best

    def merge(self, words: Any, best: Pair, *state: Any) -> Any:
        count = self._pair_counts[best]
        work = self._work.of_merge(words, best, self._pair_counts)
        self._recorder.skip()
        result = self._steps[1](words, best, *state)
        timings = self._recorder.timings
        counting, finding, updating = (timings[p] - self._last[p] for p in PHASES[2:5])
        self._last = dict(timings)
        self._recorder.traced(best, count, counting, finding, updating, work)
        return result
