"""Training shown step by step, and a race of all trainers on the same text."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from cs336_basics._support.validation import Checked, build, one_of, option
from cs336_basics.bpe import TRAINERS, NaiveTrainer, get_trainer
from cs336_basics.bpe.explain import MOST_BYTES, draw
from cs336_basics.bpe.reference import merge_pair, split_bytes
from cs336_basics.bpe.trace import MergeTrace
from cs336_basics.bpe.unbuilt import is_built
from cs336_basics.data.datasets import sample_documents
from cs336_basics.playground.texts import MOST_TEXT, check_length, shown
from cs336_basics.pretokenization.counting.count_texts import count_texts
from cs336_basics.pretokenization.splitter import Splitter

MOST_WATCHED = 2_000
"""Maximum length of a watched text in characters."""
MOST_STEPS = 300
"""Maximum number of merges that are watched."""
MOST_WORDS = 60
"""Maximum number of words that the page shows."""
MOST_PAIRS = 20
"""Maximum number of pairs that the page shows."""

_POLL = 0.05  # seconds between two points of a race
_POINTS = 40  # maximum number of points at a time

STAGES = [name for name, trainer in TRAINERS.items() if is_built(trainer)]
"""Names of the trainers that can be used."""


# --- one training ----------------------------------------------------------------------------


@dataclass(kw_only=True)
class WatchRequest(Checked):
    """A text, a trainer and a step."""

    text: str = option("the text")
    stage: Annotated[str, one_of(STAGES)] = option("name of the trainer", STAGES[0])
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
    trainer = NaiveTrainer()
    trainer.counts = list(counts.values())
    pair_counts = trainer.count_pairs(words)
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

    text: str = option("the text; empty for the sample corpus", "")
    merges: int = option("number of merges", 300, ge=1, le=5000)
    seconds: float = option("maximum seconds for each trainer", 5.0, gt=0, le=60)


def race(asked: Mapping[str, Any]) -> Generator[dict[str, Any], None, None]:
    """Yield points of each trainer while it learns, one trainer after the other.

    The trainers take turns, so that they do not slow each other down. Each point gives the number
    of merges so far, and the total seconds and work that they took. The last point of a trainer
    also says whether it learned the same merges as the first trainer.
    """
    request = build(RaceRequest, asked)
    check_length(request.text, MOST_TEXT)
    counts = _counted(request.text or _sample())
    first: list[MergeTrace] = []
    for stage in STAGES:
        runner = _Runner(stage, counts, request)
        try:
            while not runner.ended.wait(_POLL):
                yield runner.row(is_last=False)
            row = runner.row(is_last=True)
        finally:
            runner.stopped.set()
        first = first or runner.traces
        row["same"] = all(a[1:3] == b[1:3] for a, b in zip(first, runner.traces, strict=False))
        yield row


class _Stopped(Exception):  # noqa: N818 -- not an error
    """Raised by the trace callback to end a training run."""


class _Runner:
    """A training run in its own thread, which ends when it is stopped or its time is up."""

    def __init__(self, stage: str, counts: Mapping[bytes, int], request: RaceRequest) -> None:
        self.stage = stage
        self.traces: list[MergeTrace] = []
        self.stopped = threading.Event()
        self.ended = threading.Event()
        self._error: Exception | None = None
        self._seconds = 0.0
        self._limit = request.seconds
        self._num_read = 0
        self._totals = {"seconds": 0.0, "positions": 0, "pairs_searched": 0, "heap_entries": 0}
        trainer = get_trainer(stage)(trace=self._trace, num_workers=1)
        threading.Thread(target=self._run, args=[trainer, counts, request.merges]).start()

    def _run(self, trainer: Any, counts: Mapping[bytes, int], num_merges: int) -> None:
        try:
            trainer.train_from_counts(counts, 256 + num_merges)
        except _Stopped:
            pass
        except Exception as error:
            self._error = error
        finally:
            self.ended.set()

    def _trace(self, trace: MergeTrace) -> None:
        self.traces.append(trace)
        self._seconds += trace.seconds
        if self.stopped.is_set() or self._seconds > self._limit:
            raise _Stopped

    def row(self, is_last: bool) -> dict[str, Any]:
        """Return the points since the last row."""
        if self._error is not None:
            raise self._error
        new = self.traces[self._num_read :]
        every = -(-len(new) // _POINTS) or 1
        points = []
        for trace in new:
            self._num_read += 1
            self._totals["seconds"] += trace.seconds
            for name in ("positions", "pairs_searched", "heap_entries"):
                self._totals[name] += getattr(trace.work, name)
            if self._num_read % every == 0 or trace is new[-1]:
                points.append({"merges": self._num_read, **self._totals})
        return {"stage": self.stage, "points": points, "ended": is_last}


@functools.cache
def _sample() -> str:
    """Return the start of the sample corpus."""
    documents, size = [], 0
    for document in sample_documents():
        documents.append(document)
        size += len(document)
        if size >= MOST_TEXT:
            break
    return "\n".join(documents)[:MOST_TEXT]
