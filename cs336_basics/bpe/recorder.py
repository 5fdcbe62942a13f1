"""Recorder: the clock, the progress bar and the trace of a training run.

A Python trainer puts each step of a merge into `with step("counting pairs"):` or another phase, and
yields each merge. The recorder reads the clock when a step ends, and handles a merge before the
trainer continues. Compiled trainers time their own steps and report the durations.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from cs336_basics._support.progress import progress_bar
from cs336_basics.bpe.reference import Pair
from cs336_basics.bpe.trace import MergeTrace, Trace, Work

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

Step = Callable[[str], contextlib.AbstractContextManager[object]]
"""Function that returns a context for a step: `with step("updating"):` adds the time of the body to
this phase. Pass `contextlib.nullcontext` to measure nothing."""

_NOTHING: Mapping[str, float] = MappingProxyType({})


class Recorder:
    """Measures one training run.

    One clock runs throughout: each reading ends one phase and starts the next.

    Args:
        trace: Callback invoked with the MergeTrace of each merge; see `BPE_Trainer`.
        first_rank: Rank of the first merge.
        clock: Function that returns the time in seconds.

    Attributes:
        step: The `Step` that the trainer receives.
        timings: Seconds spent in each phase so far.
        advance: Function to call with the number of merges learned since the last call.
    """

    def __init__(
        self,
        trace: Trace | None = None,
        first_rank: int = 0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.trace = trace
        self.timings = dict.fromkeys(PHASES, 0.0)
        self.step: Step = {phase: _Step(self, phase) for phase in PHASES}.__getitem__
        self.advance: Callable[[int], object] = lambda num_merges: None
        self._clock = clock
        self._rank = first_rank
        self._held_back: MergeTrace | None = None
        self._traced = dict(self.timings)  # timings at the last traced merge
        self._start = self._last = clock()
        self._skipped = 0.0

    def lap(self, phase: str, measured: Mapping[str, float] = _NOTHING) -> None:
        """Add the time since the last clock reading to a phase.

        Args:
            phase: A name in PHASES.
            measured: Mapping from other phases to the seconds of this time that belong to them.
        """
        now = self._clock()
        self.timings[phase] += now - self._last
        self._last = now
        for other, seconds in measured.items():
            self.timings[other] += seconds
            self.timings[phase] -= seconds

    def skip(self) -> None:
        """Exclude the time since the last clock reading from all phases."""
        now = self._clock()
        self._skipped += now - self._last
        self._last = now

    @contextlib.contextmanager
    def progress_bar(self, show: bool, num_merges: int) -> Iterator[None]:
        """Show a progress bar while the body of the `with` statement learns merges."""
        with progress_bar(show, total=num_merges, unit=" merges", desc="learning merges") as bar:
            self.advance = bar.update
            yield

    def merged(self, pair: Pair, count: int, work: Callable[[], Work]) -> None:
        """Record a merge of a trainer that times its steps with `step`."""
        self.advance(1)
        if self.trace is not None:
            timings, before = self.timings, self._traced
            counting, finding, updating = (timings[p] - before[p] for p in PHASES[2:5])
            self._traced = dict(timings)
            self.traced(pair, count, counting, finding, updating, work())

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


class _Step:
    """Ends a phase of the recorder when its `with` block ends."""

    __slots__ = ("_phase", "_recorder")

    def __init__(self, recorder: Recorder, phase: str) -> None:
        self._recorder = recorder
        self._phase = phase

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        # Late merges take about 20 microseconds each, so reading the clock must be cheap.
        recorder = self._recorder
        now = recorder._clock()
        recorder.timings[self._phase] += now - recorder._last
        recorder._last = now
