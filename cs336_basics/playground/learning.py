"""Training shown step by step, and a race between all trainers on the same text."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from cs336_basics._support.validation import Checked, build, one_of, option
from cs336_basics.bpe import TRAINERS, get_trainer
from cs336_basics.bpe.drawing import MOST_BYTES
from cs336_basics.bpe.explain import draw
from cs336_basics.bpe.reference import merge_pair, split_bytes
from cs336_basics.bpe.rules import Rules
from cs336_basics.bpe.trace import MergeTrace
from cs336_basics.bpe.v2_incremental import PairIndex
from cs336_basics.checkpoints.run_dir import thinned
from cs336_basics.counting.count_texts import count_texts
from cs336_basics.playground.texts import MOST_TEXT, check_length, shown
from cs336_basics.splitting.splitter import Splitter

MOST_WATCHED = 2_000
"""Maximum length of a watched text in characters."""
MOST_STEPS = 300
"""Maximum number of merges that are watched."""
MOST_WORDS = 60
"""Maximum number of words that the page shows."""
MOST_PAIRS = 20
"""Maximum number of pairs that the page shows."""

_PAUSE = 0.05  # minimum seconds between two rows of a race
_POINTS = 40  # maximum number of points in a row of a race
_SHORT = 0.5  # a training run that takes fewer seconds is repeated
_ROUNDS = 5  # number of training runs; their median is shown
_WORDS = 20_000  # number of invented words; with fewer, the fastest stages differ only by chance

Emit = Callable[[dict[str, Any]], object]
"""Function that sends a row of a streamed answer, or raises if the page is closed."""


def stages() -> list[str]:
    """Return the names of the trainers that are built."""
    return [name for name, trainer in TRAINERS.items() if trainer.is_built]


def _is_stage(name: Any) -> Any:
    """Check the name of a trainer; see `Checked`."""
    return one_of(stages())(name)


# --- one training ----------------------------------------------------------------------------


@dataclass(kw_only=True)
class WatchRequest(Checked):
    """A text, a trainer and a step."""

    text: str = option("the text")
    stage: Annotated[str, _is_stage] = option("name of the trainer", next(iter(TRAINERS)))
    step: int = option("number of merges before the moment to show", 0, ge=0)


def watch(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a trainer before a merge, and the work of that merge.

    The words and the pair counts are the same for all trainers. The work and the drawing of the
    data structures belong to the requested trainer.
    """
    request = build(WatchRequest, asked)
    check_length(request.text, MOST_WATCHED)
    counts, traces = _learned(request.text, request.stage)
    step = min(request.step, len(traces))
    words = [split_bytes(word) for word in counts]
    for trace in traces[:step]:
        words = [merge_pair(symbols, (trace.left, trace.right)) for symbols in words]
    pair_counts = PairIndex(words, list(counts.values()), Rules(num_merges=0)).pair_counts
    pairs = sorted(pair_counts.items(), key=lambda item: (item[1], item[0]), reverse=True)
    best = pairs[0] if pairs else None
    merged = traces[step - 1] if step else None
    drawable = 0 < sum(map(len, counts)) <= MOST_BYTES
    return {
        "step": step,
        "last": len(traces),
        "merged": [shown(merged.left), shown(merged.right)] if merged else None,
        "words": [
            {
                "count": count,
                "symbols": [shown(symbol) for symbol in symbols],
                "has_best": best is not None and best[0] in itertools.pairwise(symbols),
            }
            for symbols, count in itertools.islice(
                zip(words, counts.values(), strict=True), MOST_WORDS
            )
        ],
        "num_words": len(words),
        "pairs": [
            {"pair": [shown(left), shown(right)], "count": count}
            for (left, right), count in pairs[:MOST_PAIRS]
        ],
        "num_pairs": len(pairs),
        "num_tied": sum(count == best[1] for _, count in pairs) if best else 0,
        "work": traces[step].work._asdict() if step < len(traces) else None,
        "drawing": draw(request.stage, counts, step) if drawable else None,
    }


@functools.lru_cache(maxsize=4)
def _learned(text: str, stage: str) -> tuple[dict[bytes, int], list[MergeTrace]]:
    """Return the counted words of a text and the trace of each merge."""
    counts = _counted(text)
    traces: list[MergeTrace] = []
    trainer = get_trainer(stage)(trace=traces.append, num_workers=1)
    trainer.train_from_counts(counts, 256 + MOST_STEPS)
    return counts, traces


def _counted(text: str) -> dict[bytes, int]:
    return dict(count_texts([text], Splitter()).items())


# --- the race --------------------------------------------------------------------------------


@dataclass(kw_only=True)
class RaceRequest(Checked):
    """A text and the length of a race."""

    text: str = option("the text; empty for invented words", "")
    merges: int = option("number of merges", 300, ge=1, le=5000)
    seconds: float = option("maximum seconds for each trainer", 5.0, gt=0, le=60)


def race(asked: Mapping[str, Any], emit: Emit) -> None:
    """Call `emit` with rows of points while the trainers learn.

    The trainers run one after the other, so that they do not slow each other down. A trainer that
    takes less than half a second runs several times, and the median run is shown. Each point gives
    the number of merges so far, and the total seconds and work that they took, without the time to
    build the vocabulary. The last row of a trainer also says whether it learned the same merges as
    the first trainer. An exception from `emit` ends the race.
    """
    request = build(RaceRequest, asked)
    check_length(request.text, MOST_TEXT)
    counts = _counted(request.text) if request.text else _invented_words(_WORDS)
    first: list[MergeTrace] = []
    for stage in stages():
        rounds: list[_Runner] = []
        while len(rounds) < _ROUNDS and not any(runner.has_emitted for runner in rounds):
            runner = _Runner(stage, request.seconds, emit, is_live=not rounds)
            rounds.append(runner)
            trainer = get_trainer(stage)(trace=runner.trace, num_workers=1)
            with contextlib.suppress(_OutOfTime):
                trainer.train_from_counts(counts, 256 + request.merges)
        runner = sorted(rounds, key=lambda runner: runner.seconds)[len(rounds) // 2]
        row = runner.row(is_last=True)
        first = first or runner.traces
        row["same"] = all(a[1:3] == b[1:3] for a, b in zip(first, runner.traces, strict=False))
        emit(row)


class _OutOfTime(Exception):  # noqa: N818 -- not an error
    """Raised by the trace callback to end a training run."""


class _Runner:
    """Collects the trace of a training run, emits rows, and ends the run when its time is up.

    Args:
        stage: Name of the trainer.
        seconds: The time.
        emit: See `race`.
        is_live: Whether to emit rows while the trainer learns, from _SHORT seconds on.
    """

    def __init__(self, stage: str, seconds: float, emit: Emit, is_live: bool) -> None:
        self.stage = stage
        self.traces: list[MergeTrace] = []
        self.has_emitted = False
        self._limit = seconds
        self._emit = emit
        self._next_row = time.perf_counter() + _SHORT if is_live else math.inf
        self._totals = {"seconds": 0.0, "positions": 0, "pairs_searched": 0, "heap_entries": 0}
        self._points: list[dict[str, float]] = []  # since the last row

    def trace(self, trace: MergeTrace) -> None:
        """Add a merge."""
        self.traces.append(trace)
        # The last merge includes the time to build the vocabulary, which is the same for all
        # trainers and longer than all merges of the fastest trainers together.
        self._totals["seconds"] += trace.seconds - trace.seconds_building
        for name in ("positions", "pairs_searched", "heap_entries"):
            self._totals[name] += getattr(trace.work, name)
        self._points.append({"merges": len(self.traces), **self._totals})
        if self._totals["seconds"] > self._limit:
            raise _OutOfTime
        if time.perf_counter() > self._next_row:
            self._emit(self.row(is_last=False))
            self.has_emitted = True
            self._next_row = time.perf_counter() + _PAUSE

    @property
    def seconds(self) -> float:
        """The seconds that all merges took."""
        return self._totals["seconds"]

    def row(self, is_last: bool) -> dict[str, Any]:
        """Return a row with the points since the previous row."""
        points, self._points = thinned(self._points, _POINTS), []
        return {"stage": self.stage, "points": points, "ended": is_last}


@functools.cache
def _invented_words(number: int) -> dict[bytes, int]:
    """Return words of random syllables with counts, which fall with the rank as in real texts."""
    chooser = random.Random(0)
    syllables = list(map("".join, itertools.product("bcdfghklmnprstvwz", "aeiou", ["", *"lnrs"])))
    chooser.shuffle(syllables)
    weights = [1 / rank for rank in range(3, len(syllables) + 3)]
    words: dict[bytes, int] = {}
    while len(words) < number:
        word = " " + "".join(chooser.choices(syllables, weights, k=chooser.randint(1, 4)))
        words.setdefault(word.encode(), 10 * number // (len(words) + 1))
    return words
