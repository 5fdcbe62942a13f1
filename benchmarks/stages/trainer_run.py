"""Run one stage on one text in a new process, and measure its time, phases and peak memory.

The parent starts `python trainer_run.py` with a request and receives an answer, both as JSON:

    request: stage, path, targets (numbers of merges in ascending order), count (whether the
             counting is timed), work (the profile of the text), max_seconds, omit (parts of the
             native loop to leave out)
    answer:  counting, shipped, checkpoints, learned, words, peak_memory, merges (in hexadecimal)

The words are counted twice: `counting` is the time of the method that was used when the stage was
new (`COUNTING`), and `shipped` is the time of native counting, the default for every trainer. The
merge loop then starts from the counts and stops after the last target or after `max_seconds` (see
`extrapolation.py`).
"""

import contextlib
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path

from benchmarks.corpora import EOT
from benchmarks.machine import in_new_process
from benchmarks.stages.counting import STAGES
from benchmarks.stages.extrapolation import WORK, checkpoint_merges, work_at
from cs336_basics import TRAINERS
from cs336_basics._support.memory import peak_memory
from cs336_basics.bpe.recorder import PHASES
from cs336_basics.pretokenization import Splitter, WordCounts, count_words

LOOP_PHASES = PHASES[1:-1]
"""All phases except counting words, without the key "total"."""

COUNTING = {
    "naive": "regex",
    "incremental": "regex, processes",
    "heap": "regex, processes",
    "memoryview": "processes",
    "native": "native, threads",
}
"""Trainer stage -> the counting stage from the same period."""

SHIPPED = "native, threads"
"""The default counting stage for every trainer."""

FEWEST_MERGES = 16
"""A run is not stopped before this merge, because fewer merges show no trend."""


class Stop(Exception):
    """Raised to end a merge loop before its last merge."""


class Watch:
    """Records checkpoints of a merge loop, and stops it after `max_seconds`."""

    def __init__(self, targets, work, max_seconds):
        self.work, self.max_seconds = work, max_seconds
        self.due = checkpoint_merges(targets)
        self.checkpoints = []
        self.learned = []
        self.timings = {}
        self.start = time.perf_counter()

    def advance(self, num_merges):
        number = len(self.learned)
        is_late = time.perf_counter() - self.start > self.max_seconds and number >= FEWEST_MERGES
        if number in self.due or is_late:
            self.add_checkpoint()
        if is_late:
            raise Stop

    def end(self):
        """Record the end of a run that was not stopped, with the time to build the vocabulary."""
        if self.checkpoints and self.checkpoints[-1][0] == len(self.learned):
            self.checkpoints.pop()
        self.add_checkpoint()

    def add_checkpoint(self):
        number = len(self.learned)
        phases = {phase: self.timings[phase] for phase in LOOP_PHASES}
        self.checkpoints.append([number, phases, work_at(self.work, number)])


def watched(stage, watch):
    """Return a trainer that reports every merge to the watch."""

    class Watched(TRAINERS[stage]):
        def learn_merges(self, word_counts, num_merges, recorder):
            watch.timings = recorder.timings
            recorder.advance = watch.advance
            return super().learn_merges(word_counts, num_merges, recorder)

        def merge(self, words, best, *state):
            watch.learned.append(best)
            return super().merge(words, best, *state)

    return Watched()


def learn(stage, word_counts, targets, work, max_seconds=1e9, omit=()):
    """Run a merge loop, and return its checkpoints and its merges.

    The last checkpoint is at the end of the run. A compiled loop has no other checkpoint.
    """
    vocab_size = 257 + targets[-1]
    if stage not in WORK:
        trainer = TRAINERS[stage]()
        if omit:
            trainer.omit = omit
        _, merges = trainer.train_from_counts(word_counts, vocab_size, [EOT])
        return [[len(merges), {phase: trainer.timings[phase] for phase in LOOP_PHASES}, {}]], merges
    watch = Watch(targets, work, max_seconds)
    trainer = watched(stage, watch)
    with contextlib.suppress(Stop):
        trainer.train_from_counts(word_counts, vocab_size, [EOT])
        watch.end()
    return watch.checkpoints, watch.learned


def words_of(path):
    """Return the word counts of a file as a dict."""
    return dict(count_words(path, Splitter(special_tokens=[EOT])))


def warm_up(stage):
    """Train on a small text first, so that late imports are not timed."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "text.txt"
        path.write_text("low lower newest widest " * 20)
        for counting in ("regex", "serial", SHIPPED):
            STAGES[counting](path)
        TRAINERS[stage]().train(path, 260, [EOT])


def counted(name, path):
    """Return the word counts of a file and the time to count them, in seconds."""
    start = time.perf_counter()
    word_counts = WordCounts.from_mapping(STAGES[name](path))
    return word_counts, time.perf_counter() - start


def counting_times(stage, path):
    """Return the two counting times of a stage. Call this once in a process."""
    warm_up(stage)
    return counted_and_timed(stage, path)[1]


def counted_and_timed(stage, path):
    """Return a stage's word counts and its two counting times."""
    # Native counting comes first in every process, because a second count is faster.
    word_counts, shipped = counted(SHIPPED, path)
    counting = shipped
    if COUNTING[stage] != SHIPPED:
        word_counts, counting = counted(COUNTING[stage], path)
    return word_counts, {"counting": counting, "shipped": shipped}


def answer(request):
    stage, path = request["stage"], Path(request["path"])
    warnings.simplefilter("ignore")
    warm_up(stage)
    times = {"counting": None, "shipped": None}
    if request["count"]:
        word_counts, times = counted_and_timed(stage, path)
    else:
        word_counts = words_of(path)
    checkpoints, merges = learn(
        stage, word_counts, request["targets"], request["work"], request["max_seconds"],
        request["omit"],
    )  # fmt: skip
    return {
        **times,
        "checkpoints": checkpoints,
        "learned": len(merges),
        "words": len(word_counts),
        "peak_memory": peak_memory(),
        "merges": [(left.hex(), right.hex()) for left, right in merges],
    }


def run(request):
    """Run a request in a new process, and return the answer with the merges."""
    result = in_new_process(__file__, json.dumps(request))
    result["merges"] = [tuple(map(bytes.fromhex, pair)) for pair in result["merges"]]
    return result


if __name__ == "__main__":
    print(json.dumps(answer(json.loads(sys.argv[1]))))
