"""One run of one stage on one text, in a process of its own: its time, phases and peak memory.

The parent starts `python trainer_run.py` with a request as JSON and receives the answer as JSON:

    request: stage, path, targets (numbers of merges, ascending; none: only count), count (whether
             the counting is timed), work (the profile of the text), max_seconds, omit (parts of the
             native loop), merges (the file for the merges)
    answer:  counting, checkpoints, learned, words, peak_memory

Counting is that of the stage's time (`COUNTING`), and the merge loop then begins with its result.
The loop stops after the last target, or after `max_seconds`; see `extrapolation.py`.
"""

import contextlib
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path

from benchmarks.corpora import EOT
from benchmarks.machine import in_new_process, peak_memory_of_this_process
from benchmarks.stages.counting import STAGES
from benchmarks.stages.extrapolation import checkpoint_merges, work_at
from cs336_basics import TRAINERS
from cs336_basics.pretokenization import Splitter, count_words

LOOP_PHASES = ("counting pairs", "finding the maximum", "updating")

COUNTING = {
    "naive": "regex",
    "incremental": "regex, processes",
    "heap": "regex, processes",
    "memoryview": "processes",
    "native": "native, threads",
}
"""Stage -> the stage of counting that it begins with."""

UNSTOPPABLE = ("memoryview", "native")
"""Stages whose merge loop is compiled: it shows its progress in steps, and runs to the end."""

FEWEST_MERGES = 16
"""Merges that a run is not stopped before: fewer show no trend."""


class Stop(Exception):
    """Ends a merge loop before its last merge."""


class Watch:
    """Records checkpoints of a merge loop, and ends it when it has taken long enough."""

    def __init__(self, targets, work, max_seconds):
        self.work, self.max_seconds = work, max_seconds
        self.due = checkpoint_merges(targets)
        self.checkpoints = []
        self.learned = []
        self.start = time.perf_counter()

    def advance(self, timings):
        seconds = time.perf_counter() - self.start
        number = len(self.learned)
        is_late = seconds > self.max_seconds and number >= FEWEST_MERGES
        if number == self.due[0] or is_late:
            # The clock of the last phase has not been read yet.
            phases = {phase: timings[phase] for phase in LOOP_PHASES[:-1]}
            self.add({**phases, LOOP_PHASES[-1]: seconds - sum(phases.values())})
            self.due = [merges for merges in self.due if merges > number]
        if is_late or not self.due:
            raise Stop

    def add(self, phases):
        number = len(self.learned)
        self.checkpoints.append([number, phases, work_at(self.work, number)])


def watched(stage, watch):
    """Return a trainer of a stage that shows every merge to the watch."""

    class Watched(TRAINERS[stage]):
        def merge(self, words, best, *state):
            result = super().merge(words, best, *state)
            watch.learned.append(best)
            watch.advance(self.timings)
            return result

    return Watched()


def learn(stage, word_counts, targets, work, max_seconds=1e9, omit=()):
    """Run a merge loop; return its checkpoints and the merges.

    The last checkpoint is the end of the run. A compiled loop has no other, and learns as many
    merges as the last target says.
    """
    vocab_size = 257 + targets[-1]
    if stage in UNSTOPPABLE:
        trainer = TRAINERS[stage]()
        if omit:
            trainer.omit = omit
        _, merges = trainer.train_from_counts(word_counts, vocab_size, [EOT])
        phases = {phase: trainer.timings[phase] for phase in LOOP_PHASES}
        phases["counting pairs"] += trainer.timings["total"] - sum(phases.values())
        return [[len(merges), phases, {}]], merges
    watch = Watch(targets, work, max_seconds)
    trainer = watched(stage, watch)
    with contextlib.suppress(Stop):
        trainer.train_from_counts(word_counts, vocab_size, [EOT])
    if not watch.checkpoints or watch.checkpoints[-1][0] < len(watch.learned):  # no pair was left
        watch.add({phase: trainer.timings[phase] for phase in LOOP_PHASES})
    return watch.checkpoints, watch.learned


def words_of(path):
    """Return the counted words of a file as a dict."""
    return dict(count_words(path, Splitter(special_tokens=[EOT])))


def warm_up(stage):
    """Import what is imported on demand, so that it is not timed."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "text.txt"
        path.write_text("low lower newest widest " * 20)
        STAGES["serial" if "processes" in COUNTING[stage] else COUNTING[stage]](path)
        TRAINERS[stage]().train(path, 260, [EOT])


def answer(request):
    stage, path = request["stage"], request["path"]
    warnings.simplefilter("ignore")
    warm_up(stage)
    counting = None
    if request["count"]:
        start = time.perf_counter()
        word_counts = STAGES[COUNTING[stage]](Path(path))
        counting = time.perf_counter() - start
    else:
        word_counts = words_of(path)
    checkpoints, merges = [], []
    if request["targets"]:
        checkpoints, merges = learn(
            stage, word_counts, request["targets"], request["work"], request["max_seconds"],
            request["omit"],
        )  # fmt: skip
    lines = [f"{left.hex()} {right.hex()}\n" for left, right in merges]
    Path(request["merges"]).write_text("".join(lines))
    return {
        "counting": counting,
        "checkpoints": checkpoints,
        "learned": len(merges),
        "words": len(word_counts),
        "peak_memory": peak_memory_of_this_process(),
    }


def run(request):
    """Run a request in a new process; return the answer with the merges."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "merges.txt"
        result = in_new_process(__file__, json.dumps({**request, "merges": str(file)}))
        lines = file.read_text().splitlines()
    result["merges"] = [tuple(map(bytes.fromhex, line.split(" "))) for line in lines]
    return result


if __name__ == "__main__":
    print(json.dumps(answer(json.loads(sys.argv[1]))))
