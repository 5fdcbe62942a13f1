"""The runs that `make stages` needs: what they are, how long they take, and what is finished.

One run of a Python stage on a text serves several rows: it records its time at checkpoints, so the
run to 32,000 tokens contains those to 2,000 and 10,000.
"""

import json
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import trainer_run
import training_rows
from corpora import EOT

from cs336_basics import TRAINERS
from cs336_basics.pretokenization import Splitter, count_words

PYTHON_STAGES = ("naive", "incremental", "heap")

# Seconds of a merge for each byte of distinct words, on one core of a Zen 3; means of whole runs.
SECONDS_PER_SYMBOL = {"incremental": 4.5e-8, "heap": 4e-10, "memoryview": 2e-11,
                      "native": 8e-12}  # fmt: skip
PROBE_SECONDS_PER_SYMBOL = 4.8e-7  # of the first merges of `naive` there
SECONDS_PER_BYTE = 2.2e-7  # counted by `regex`
PROCESS_SECONDS = 1.5  # its start, its imports, counting natively


@dataclass(frozen=True)
class Job:
    """Rounds of one stage on one text, up to the last of several numbers of merges."""

    stage: str
    corpus: str
    path: Path
    targets: tuple
    rounds: int
    count: bool  # whether the counting is timed; without targets, there is nothing else

    @property
    def name(self):
        counting = ", with counting" if self.count else ""
        size = self.path.stat().st_size
        rounds = f"{self.rounds} round{'s' * (self.rounds > 1)}"
        merges = f", {self.targets[-1]:,} merges" if self.targets else ""
        return f"{self.stage}, {self.corpus} of {size:,} bytes{merges}, {rounds}{counting}"


class Journal:
    """The finished jobs of a `make stages` that was interrupted."""

    def __init__(self, path, settings):
        self.path, self.settings = path, settings
        self.finished = {}
        if path.exists():
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["settings"] == settings:
                self.finished = content["finished"]

    def add(self, name, result):
        self.finished[name] = result
        content = {"settings": self.settings, "finished": self.finished}
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps(content), encoding="utf-8")
        temporary.replace(self.path)

    def delete(self):
        self.path.unlink(missing_ok=True)


class Speed:
    """Predicts how long a job takes on this machine."""

    def __init__(self, probe_path):
        counts = self.words(probe_path)
        seconds = []
        for _ in range(5):
            start = time.perf_counter()
            TRAINERS["naive"]().train_from_counts(counts, training_rows.FIRST_MERGE + 5, [EOT])
            seconds.append(time.perf_counter() - start)
        self.factor = min(seconds) / 5 / sum(map(len, counts)) / PROBE_SECONDS_PER_SYMBOL
        self.symbols = {}

    @staticmethod
    def words(path):
        return dict(count_words(path, Splitter(special_tokens=[EOT])))

    def seconds(self, job, whole_below, extrapolate_after):
        if job.path not in self.symbols:
            self.symbols[job.path] = sum(map(len, self.words(job.path)))
        possible = [
            PROCESS_SECONDS
            + self.factor * merge_seconds(job.stage, target) * self.symbols[job.path] * target
            for target in job.targets
        ]
        whole = [seconds for seconds in possible if seconds <= max(whole_below, extrapolate_after)]
        only_counting = PROCESS_SECONDS + self.factor * job.path.stat().st_size * SECONDS_PER_BYTE
        return job.rounds * max(whole, default=extrapolate_after if possible else only_counting)


def merge_seconds(stage, num_merges):
    """Return the mean seconds of a merge for each byte of distinct words, on the Zen 3."""
    if stage == "naive":  # words become shorter
        return PROBE_SECONDS_PER_SYMBOL * (1 + num_merges / 500) ** -0.2
    return SECONDS_PER_SYMBOL[stage]


def run_job(job, whole_below, extrapolate_after):
    """Run a job; return the answers, without the merges, which are checked."""
    request = training_rows.request(
        job.stage, job.path, job.targets, count=job.count, whole_below=whole_below,
        extrapolate_after=extrapolate_after,
    )  # fmt: skip
    answers = [trainer_run.run(request) for _ in range(job.rounds)]
    if job.targets:
        training_rows.check(job.stage, job.path, answers)
    return [{key: value for key, value in a.items() if key != "merges"} for a in answers]


def result_of(answers):
    """Return the least time of several rounds, to show."""
    if not answers[0]["checkpoints"]:
        return f"counted in {min(a['counting'] for a in answers):,.2f} s"
    seconds = min(sum(a["checkpoints"][-1][1].values()) for a in answers)
    return f"{seconds:,.2f} s for {answers[0]['learned']:,} merges"


def run_all(jobs, num_at_once, journal, options, say):
    """Run jobs, several at once, in the order given; finished ones are kept in the journal."""
    todo = [job for job in jobs if job.name not in journal.finished]
    for job in todo:  # first what results are compared with and extrapolated from
        if job.targets:
            training_rows.expected_merges(job.path)
            training_rows.profile_of(job.path)
    left = len(todo)
    with ThreadPoolExecutor(num_at_once) as pool:
        running = {
            pool.submit(run_job, job, options.whole_below, options.extrapolate_after): job
            for job in todo
        }
        for future in as_completed(running):
            job = running[future]
            answers = future.result()
            journal.add(job.name, answers)
            left -= 1
            say(f"{job.name}: {result_of(answers)}; {left} runs left")
