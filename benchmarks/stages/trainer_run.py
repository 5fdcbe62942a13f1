"""Run one stage on one text in a new process, and measure its time, phases and peak memory.

The parent starts `python trainer_run.py` with a request and receives an answer, both as JSON:

    request: stage, path, targets (numbers of merges), max_seconds
    answer:  checkpoints, words, peak_memory, merges (in hexadecimal)

The merge loop starts from counted words (`counting.py` times the counting) and stops after the last
target or after `max_seconds` (see `extrapolation.py`). A checkpoint is `[merges, {phase: seconds so
far}]`.
"""

import contextlib
import json
import sys
import time
import warnings
from pathlib import Path

from benchmarks.corpora import EOT
from benchmarks.machine import in_new_process
from benchmarks.stages.counting import warm_up
from benchmarks.stages.extrapolation import can_be_stopped, checkpoint_merges
from benchmarks.stages.merge_variants import trainer_of
from cs336_basics._support.memory import peak_memory
from cs336_basics.bpe.recorder import PHASES
from cs336_basics.counting import count_words
from cs336_basics.splitting import Splitter

LOOP_PHASES = PHASES[1:-1]
"""All phases except counting words, without the key "total"."""

FEWEST_MERGES = 16
"""A run is not stopped before this merge, because fewer merges show no trend."""


class Stop(Exception):
    """Raised to end a merge loop before its last merge."""


class Watch:
    """Records checkpoints of a merge loop, and stops it after `max_seconds`."""

    def __init__(self, targets, max_seconds):
        self.max_seconds = max_seconds
        self.due = checkpoint_merges(targets)
        self.checkpoints = {}  # number of merges -> seconds so far in each phase
        self.learned = []
        self.start = time.perf_counter()

    def add(self, pair, timings):
        self.learned.append(pair)
        number = len(self.learned)
        is_late = time.perf_counter() - self.start > self.max_seconds and number >= FEWEST_MERGES
        if number in self.due or is_late:
            self.record(timings)
        if is_late:
            raise Stop

    def record(self, timings):
        self.checkpoints[len(self.learned)] = {phase: timings[phase] for phase in LOOP_PHASES}


def watched(stage, watch):
    """Return a trainer that reports every merge to the watch."""

    class Watched(trainer_of(stage)):
        def learn(self, words, counts, rules, step):
            for merge in super().learn(words, counts, rules, step):
                watch.add(merge[0], self.timings)
                yield merge

    return Watched()


def learn(stage, word_counts, targets, max_seconds):
    """Run a merge loop, and return its checkpoints and its merges.

    The last checkpoint is at the end of the run. A compiled loop has no other checkpoint.
    """
    vocab_size = 257 + max(targets)
    if not can_be_stopped(stage):
        trainer = trainer_of(stage)()
        _, merges = trainer.train_from_counts(word_counts, vocab_size, [EOT])
        return [[len(merges), {phase: trainer.timings[phase] for phase in LOOP_PHASES}]], merges
    watch = Watch(targets, max_seconds)
    trainer = watched(stage, watch)
    with contextlib.suppress(Stop):
        trainer.train_from_counts(word_counts, vocab_size, [EOT])
        watch.record(trainer.timings)  # again, with the time to build the vocabulary
    return list(watch.checkpoints.items()), watch.learned


def words_of(path):
    """Return the word counts of a file as a dict."""
    return dict(count_words(path, Splitter(special_tokens=[EOT])))


def answer(stage, path, targets, max_seconds):
    warnings.simplefilter("ignore")
    warm_up(Path(path))
    trainer_of(stage)().train_from_counts({b"low": 5, b"lower": 2}, 260, [EOT])
    word_counts = words_of(path)
    checkpoints, merges = learn(stage, word_counts, targets, max_seconds)
    return {
        "checkpoints": checkpoints,
        "words": len(word_counts),
        "peak_memory": peak_memory(),
        "merges": [(left.hex(), right.hex()) for left, right in merges],
    }


def run(stage, path, targets, max_seconds=1e9):
    """Run a stage in a new process, and return the answer."""
    request = [stage, str(path), targets, max_seconds]
    result = in_new_process(__file__, json.dumps(request))
    if "error" in result:
        raise RuntimeError(result["error"])
    result["merges"] = [tuple(map(bytes.fromhex, pair)) for pair in result["merges"]]
    return result


if __name__ == "__main__":
    print(json.dumps(answer(*json.loads(sys.argv[1]))))
