"""Measure all stages from scratch and write data, tables and plots: `make stages`.

    CS336_DATA=/directory/with/corpora make stages
    python -m benchmarks.stages.run [--max-seconds 1800] [--full-bytes N]

The Python stages run first, one per core, starting with the slowest. Then all other jobs run, one
at a time: the compiled stages, counting, encoding, the installed libraries from peers/peers.txt,
ablations, and generated texts as large as TinyStories and OpenWebText. A time is kept only if
another trainer learns the same merges. A stage is stopped after `--max-seconds`, and its time is
extrapolated (`extrapolation.py`). If the command is interrupted, run it again to resume. If no
corpora are found, the embedded sample is measured.

One run of a Python stage on a text provides several rows. It records its time at checkpoints, so
the run to 32,000 tokens includes the results for 2,000 and 10,000 tokens.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.corpora import COMMON_BYTES, COMMON_VOCAB_SIZE, find_corpora, head_of
from benchmarks.machine import RESULTS, ROOT
from benchmarks.report import measurements, pages, tables
from benchmarks.report.measurements import Measurement
from benchmarks.stages import ablations, full_size, traces, training_rows
from benchmarks.stages.counting import CORES, counting_times
from benchmarks.stages.extrapolation import can_be_stopped
from benchmarks.stages.generated_text import PROFILES, write_text
from cs336_basics import TRAINERS
from cs336_basics._support.files import write_json

# The size of TinyStories. The trainers in Python need about 4 GB of memory for as much web text.
CORPUS_BYTES = 2_300_000_000
VOCAB_SIZES = (COMMON_VOCAB_SIZE, 10_000, 32_000)
GROWTH_STEPS = 5  # sizes, each half of the previous one
COMPILED_VOCAB_SIZES = (1_000, 2_000, 4_000, 10_000, 16_000, 32_000)
LARGE_BYTES = 100_000_000  # on a larger text, every stage runs for one round

# Used to predict how long the command will take, like the times of earlier measurements.
FULL_SECONDS_PER_BYTE = 5e-8  # writing a text as large as a whole corpus, and training on it
OTHER_SECONDS = 900  # counting, encoding, other libraries, ablations, traces


@dataclass(frozen=True)
class Job:
    """The rounds of one stage on one text, up to the last of several targets."""

    stage: str
    corpus: str
    path: Path
    targets: tuple
    rounds: int

    @property
    def text(self):
        return f"{self.stage}, {self.corpus} of {self.path.stat().st_size:,} bytes"

    @property
    def name(self):
        return f"{self.text}, {max(self.targets):,} merges, {self.rounds} rounds"


class Finished(dict):
    """Job name -> result, stored in a file so that an interrupted run can resume."""

    def __init__(self, path, settings):
        self.path, self.settings = path, settings
        if path.exists():
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["settings"] == settings:
                self.update(content["finished"])

    def __setitem__(self, name, result):
        super().__setitem__(name, result)
        write_json(self.path, {"settings": self.settings, "finished": self})

    def result(self, name, measure):
        """Return the stored result, or store and return `measure()`."""
        if name not in self:
            say(f"{name} ...")
            self[name] = measure()
        return self[name]


def main():
    options = parse_arguments()
    corpora = find_corpora(CORPUS_BYTES)
    settings = {  # an interrupted run is resumed only if they are the same
        "machine": measurements.machine_name(), "corpora": list(map(str, corpora)),
        "max_seconds": options.max_seconds,
    }  # fmt: skip
    finished = Finished(RESULTS / "stages-unfinished.json", settings)
    slow, fast = plan(corpora)
    full_sizes = sizes_of_full_texts(options.full_bytes, corpora)
    say_plan(slow, fast, finished, options, corpora, sum(full_sizes.values()))
    run_all(slow, CORES, finished, options)
    run_all(fast, 1, finished, options)
    rows = rows_of_training(slow + fast, corpora, finished)
    merging = tables.of_comparison(rows, "merging")
    others = finished.result("counting, encoding and other libraries", pytest_rows)
    for program in (ablations, traces):  # they record and draw their own results
        finished.result(program.__name__, program.main)
    for corpus, size in full_sizes.items():
        measure = partial(full_size_rows, corpus, size, merging, options.max_seconds)
        others = others + finished.result(f"text like {corpus}, {size:,} bytes", measure)
    replace_rows(rows + [Measurement(**row) for row in others])
    say(f"written: {', '.join(pages.write_all())}")
    finished.path.unlink(missing_ok=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--max-seconds", type=float, default=1800, metavar="SECONDS",
        help="stop a run after this many seconds and extrapolate (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--full-bytes", type=int, default=sys.maxsize, metavar="N",
        help="most bytes of each generated text, 0 = none (default: the size of the corpus, if the "
        "disk has room for it); TMPDIR names the directory for these texts",
    )  # fmt: skip
    return parser.parse_args()


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


# --- the plan ------------------------------------------------------------------------------------


def merges_to(*vocab_sizes):
    return tuple(size - training_rows.FIRST_MERGE for size in vocab_sizes)


def growth_paths(corpus):
    """Return paths to the beginning of a corpus in several sizes, including its common size."""
    common = COMMON_BYTES[corpus.name]
    sizes = [int(common * 2.0**step) for step in range(1 - GROWTH_STEPS, GROWTH_STEPS)]
    smaller = [size for size in sizes if size < corpus.num_bytes]
    return [head_of(corpus.path, size) for size in smaller[-GROWTH_STEPS:]]


def plan(corpora):
    """Return two lists of jobs: stages in Python, and compiled stages."""
    slow, fast = [], []
    for corpus in corpora:
        name = corpus.name
        is_large = corpus.num_bytes > LARGE_BYTES
        for stage in TRAINERS:
            if can_be_stopped(stage):
                rounds = 3 if searches_a_heap(stage) and not is_large else 1
                slow.append(Job(stage, name, corpus.path, merges_to(*VOCAB_SIZES), rounds))
            else:
                fast += [
                    Job(stage, name, corpus.path, merges_to(size), 1 if is_large else 5)
                    for size in COMPILED_VOCAB_SIZES
                ]
        for path in growth_paths(corpus):
            for stage in TRAINERS:
                rounds = 1 if reads_all_words(stage) else 3
                job = Job(stage, name, path, merges_to(COMMON_VOCAB_SIZE), rounds)
                (slow if can_be_stopped(stage) else fast).append(job)
    return slow, fast


def searches_a_heap(stage):
    return TRAINERS[stage].work_units.get("finding the maximum") == "entries"


def reads_all_words(stage):
    return TRAINERS[stage].work_units.get("updating") == "words"


def sizes_of_full_texts(most, corpora):
    """Return a dict from corpus name to generated text size, for texts that fit on the disk."""
    sizes = {}
    directory = tempfile.gettempdir()
    free = shutil.disk_usage(directory).free
    for name in [corpus.name for corpus in corpora if corpus.name in PROFILES and most]:
        size = min(PROFILES[name].num_bytes, most)
        if free >= 2 * size:
            sizes[name] = size
        else:
            say(f"{directory} has only {free / 1e9:.0f} GB free; skipped the text like {name}")
    return sizes


def say_plan(slow, fast, finished, options, corpora, full_bytes):
    """Print how long the run will take, and sort the slow jobs, longest first."""
    earlier = measurements.read()

    def seconds(job):
        whole = predicted_seconds(earlier, job)
        return job.rounds * (2 + min(whole, options.max_seconds))

    slow.sort(key=seconds, reverse=True)
    todo = [[seconds(job) for job in jobs if job.name not in finished] for jobs in (slow, fast)]
    total = max(sum(todo[0]) / CORES, *todo[0], 0) + sum(todo[1])
    total += OTHER_SECONDS + full_bytes * FULL_SECONDS_PER_BYTE
    if full_bytes:  # `naive` and `incremental` on the text that resembles TinyStories
        total += 2 * options.max_seconds
    say(f"corpora: {', '.join(map(str, corpora))}; {CORES} cores")
    say(f"{len(slow) + len(fast)} runs, {len(finished)} of them finished; time left: about "
        f"{total / 60:,.0f} minutes, until "
        f"{time.strftime('%H:%M', time.localtime(time.time() + total))}")  # fmt: skip


def predicted_seconds(earlier, job):
    """Return the time of a job's merge loop, in proportion to an earlier one of the same stage."""
    own = [r for r in earlier if (r.comparison, r.stage) == ("merging", job.stage)]
    size = job.path.stat().st_size * max(job.targets)
    rates = [row.median / (row.bytes * row.work) for row in own]
    return size * statistics.median(rates) if rates else float("inf")


# --- the steps -----------------------------------------------------------------------------------


def run_all(jobs, num_at_once, finished, options):
    """Run the unfinished jobs in the given order, several at once."""
    todo = [job for job in jobs if job.name not in finished]
    for job in todo:  # the references for comparison and extrapolation come first
        training_rows.expected_merges(job.path)
        training_rows.profile_of(job.path)
    left = len(todo)
    measure = partial(training_rows.checked_runs, max_seconds=options.max_seconds)
    with ThreadPoolExecutor(num_at_once) as pool:
        running = {pool.submit(measure, j.stage, j.path, j.targets, j.rounds): j for j in todo}
        for future in as_completed(running):
            job, answers = running[future], future.result()
            finished[job.name] = answers
            left -= 1
            num_merges = answers[0]["checkpoints"][-1][0]
            seconds = min(sum(a["checkpoints"][-1][1].values()) for a in answers)
            say(f"{job.name}: {seconds:,.2f} s for {num_merges:,} merges; {left} runs left")


def rows_of_training(jobs, corpora, finished):
    """Return the rows of `merging`, `end-to-end` and `shipped`."""
    rows = []
    counted = {corpus.path for corpus in corpora}
    counted |= {head_of(corpus.path, COMMON_BYTES[corpus.name]) for corpus in corpora}
    for job in jobs:
        counting = []
        if job.path in counted:
            measure = partial(counting_times, job.stage, job.path, job.rounds)
            counting = finished.result(f"counting for {job.text}, {job.rounds} rounds", measure)
        for target in job.targets:
            rows += training_rows.rows(
                job.stage, job.corpus, job.path, finished[job.name], target, counting
            )
    return rows


def pytest_rows():
    """Measure counting, encoding and other libraries."""
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "results.json"
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider",
             "benchmarks/stages/bench_counting.py", "benchmarks/encoding/bench_encoder.py",
             "benchmarks/stages/bench_trainers.py::test_other_library",
             "--benchmark-only", "--corpus-bytes", str(CORPUS_BYTES),
             f"--benchmark-json={output}"],
            check=True, cwd=ROOT,
        )  # fmt: skip
        return [asdict(row) for row in pages.rows_of_file(output)]


def full_size_rows(corpus, size, merging, max_seconds):
    """Measure training on a text as large as a whole corpus."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "text.txt"
        write_text(path, replace(PROFILES[corpus], num_bytes=size))
        say("the text is written; training ...")
        return [asdict(row) for row in full_size.measure(path, corpus, merging, max_seconds)]


def replace_rows(rows):
    """Record the rows, and drop all other rows of the comparisons that this run measured."""
    measurements.record(rows, "make stages")
    keys, measured = {row.key for row in rows}, {row.comparison for row in rows}
    measurements.write([
        row for row in measurements.read() if row.key in keys or row.comparison not in measured
    ])  # fmt: skip


if __name__ == "__main__":
    main()
