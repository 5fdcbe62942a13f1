"""Measure all stages from scratch and write data, tables and plots: `make stages`.

    CS336_DATA=/directory/with/corpora make stages
    python benchmarks/stages.py [--whole-below 3600] [--extrapolate-after 600] [--web-bytes N]

In this order: the stages in Python, as many at once as there are cores, the slowest first; then,
alone, the compiled stages, counting, encoding, other libraries (benchmarks/peers.txt), ablations,
and a text of the size of OpenWebText. All merges are compared with those of another trainer before
a time is kept. A stage that would take longer than `--whole-below` is measured for
`--extrapolate-after` seconds, and its time extrapolated (`extrapolation.py`). If the command is
interrupted, the same command resumes where it stopped. Without corpora it measures on the embedded
sample.
"""

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import measurements
import owt_sized
import peers
import report
import training_rows
from corpora import COMMON_BYTES, COMMON_VOCAB_SIZE, common_corpora, find_corpora, head_of
from counting_stages import CORES
from measurements import Measurement
from stage_jobs import PYTHON_STAGES, Job, Journal, Speed, run_all

from cs336_basics import TRAINERS

HERE = Path(__file__).parent
DEFAULT_CORPUS_BYTES = 2_300_000_000
VOCAB_SIZES = (COMMON_VOCAB_SIZE, 10_000, 32_000)
GROWTH_STEPS = 5  # sizes, each half of the one before
COMPILED_VOCAB_SIZES = (1_000, 2_000, 4_000, 10_000, 16_000, 32_000)
# Of a larger text the compiled stages have one round, and Python counts only this much.
LARGE_BYTES = 100_000_000
PROGRAMS = ("bench_ablations.py", "trace_plot.py", "stage_page.py")
MEASURED_HERE = ("merging", "end-to-end", "counting", "encoding", "decoding", "owt-sized")
WEB_SECONDS_PER_BYTE = 3e-8  # writing the text of the size of OpenWebText, and training on it
OTHER_SECONDS = 900  # counting, encoding, other libraries, ablations, traces


def main():
    options = parse_arguments()
    corpora = find_corpora(options.corpus_bytes)
    journal = Journal(HERE / "results" / "stages-unfinished.json", settings_of(options, corpora))
    slow, fast, counted = plan(corpora)
    web_bytes = web_size(options, corpora)
    say_plan(slow, fast + counted, journal, options, corpora, web_bytes)
    install_peers()
    run_all(slow, CORES, journal, options, say)
    run_all(fast + counted, 1, journal, options, say)
    recorded = record_training(slow, fast, counted, journal)
    recorded |= run_pytest(journal, options)
    recorded |= run_peers(corpora, journal)
    run_programs(journal)
    recorded |= run_owt_sized(web_bytes, journal, options)
    keep_only(recorded)
    say(f"written: {', '.join(report.write_all())}")
    journal.delete()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--whole-below", type=float, default=3600, metavar="SECONDS",
        help="run a stage to its end if it takes less (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--extrapolate-after", type=float, default=600, metavar="SECONDS",
        help="measure any other stage this long, then extrapolate (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--corpus-bytes", type=int, default=DEFAULT_CORPUS_BYTES, metavar="N",
        help="use at most this many bytes of a corpus, 0 = all (default: %(default)s, as many as "
        "TinyStories has; the trainers in Python need about 4 GB of memory for as much web text)",
    )  # fmt: skip
    parser.add_argument(
        "--web-bytes", type=int, metavar="N",
        help="bytes of the text of OpenWebText's size, 0 = none (default: "
        f"{owt_sized.OWT_BYTES:,} where the disk has room for it)",
    )  # fmt: skip
    parser.add_argument(
        "--web-directory", type=Path, default=Path(tempfile.gettempdir()),
        help="where that text is written, and deleted (default: %(default)s)",
    )  # fmt: skip
    return parser.parse_args()


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def settings_of(options, corpora):
    """Return what must be the same for an interrupted run to resume."""
    return {
        "machine": measurements.machine_name(), "corpora": [str(corpus) for corpus in corpora],
        "whole_below": options.whole_below, "extrapolate_after": options.extrapolate_after,
    }  # fmt: skip


# --- the plan ------------------------------------------------------------------------------------


def targets(vocab_sizes):
    return tuple(size - training_rows.FIRST_MERGE for size in vocab_sizes)


def growth_paths(corpus):
    """Return the corpus cut to several sizes, the whole and that of common_corpora among them."""
    common = COMMON_BYTES[corpus.name]
    sizes = {common * 2**step for step in range(GROWTH_STEPS)}
    sizes |= {common // 2**step for step in range(GROWTH_STEPS)}
    sizes = sorted(size for size in sizes if size < corpus.num_bytes)
    nearest = min(range(len(sizes)), key=lambda i: abs(sizes[i] - common)) if sizes else 0
    first = max(0, min(nearest, len(sizes) - GROWTH_STEPS))
    return [head_of(corpus.path, size) for size in sizes[first:][:GROWTH_STEPS]]


def plan(corpora):
    """Return the jobs: in Python, several at once; compiled, alone; the counting of the first."""
    slow, fast, counted = [], [], []
    common = {corpus.name: corpus.path for corpus in common_corpora()}
    for corpus in corpora:
        name = corpus.name
        is_large = corpus.num_bytes > LARGE_BYTES
        for stage in TRAINERS:
            if stage in PYTHON_STAGES:
                rounds = 3 if stage == "heap" and not is_large else 1
                slow.append(
                    Job(stage, name, corpus.path, targets(VOCAB_SIZES), rounds, count=False)
                )
                texts = dict.fromkeys([common[name], head_of(corpus.path, LARGE_BYTES)])
                counted += [Job(stage, name, path, (), 3, count=True) for path in texts]
            else:
                fast += [
                    Job(stage, name, corpus.path, targets([size]), 1 if is_large else 5, True)
                    for size in COMPILED_VOCAB_SIZES
                ]
        for path in growth_paths(corpus):
            for stage in TRAINERS:
                job = Job(
                    stage, name, path, targets([COMMON_VOCAB_SIZE]),
                    1 if stage == "naive" else 3, count=stage not in PYTHON_STAGES,
                )  # fmt: skip
                (slow if stage in PYTHON_STAGES else fast).append(job)
    return slow, fast, counted


def web_size(options, corpora):
    """Return the size of the text of the size of OpenWebText, 0 where there is no room for it."""
    if options.web_bytes is not None:
        return options.web_bytes
    if not any(corpus.name == "owt" for corpus in corpora):
        return 0
    free = shutil.disk_usage(options.web_directory).free
    if free < 2 * owt_sized.OWT_BYTES:
        say(
            f"{options.web_directory} has {free / 1e9:.0f} GB free: no text of the size of "
            "OpenWebText is written (--web-directory names another disk)"
        )
        return 0
    return owt_sized.OWT_BYTES


def say_plan(slow, alone, journal, options, corpora, web_bytes):
    """Say how long everything takes; sort the slow jobs, longest first."""
    speed = Speed(head_of(corpora[0].path, 1_000_000))
    seconds = {
        job: speed.seconds(job, options.whole_below, options.extrapolate_after)
        for job in slow + alone
    }
    slow.sort(key=lambda job: -seconds[job])
    todo = [job for job in slow if job.name not in journal.finished]
    together = sum(seconds[job] for job in todo)
    longest = max((seconds[job] for job in todo), default=0)
    total = max(together / CORES, longest)
    total += sum(seconds[job] for job in alone if job.name not in journal.finished)
    total += OTHER_SECONDS + web_bytes * WEB_SECONDS_PER_BYTE
    say(
        f"corpora: {', '.join(map(str, corpora))}; {CORES} cores, {1 / speed.factor:.2f} times as "
        "fast as those of the prediction"
    )
    say(f"{len(slow) + len(alone)} runs, {len(journal.finished)} of them finished; all of it will "
        f"take about {total / 60:,.0f} minutes, until "
        f"{time.strftime('%H:%M', time.localtime(time.time() + total))}")  # fmt: skip


# --- the steps -----------------------------------------------------------------------------------


def install_peers():
    """Install the other libraries; one that cannot be installed is left out."""
    for line in (HERE / "peers.txt").read_text().splitlines():
        name = line.split("==")[0].strip()
        if line.startswith("#") or not name or importlib.util.find_spec(name):
            continue
        command = [sys.executable, "-m", "pip", "install", "--quiet", line]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            say(f"{line} cannot be installed here: it is left out")
    importlib.invalidate_caches()


def record_training(slow, fast, counted, journal):
    """Record the rows of the comparisons `merging` and `end-to-end`; return their keys."""
    rows = []
    for job in slow + fast:
        head = head_of(job.path, LARGE_BYTES)
        scale = job.path.stat().st_size / head.stat().st_size
        counting = [
            scale * answer["counting"]
            for other in counted
            if (other.stage, other.path) == (job.stage, head)
            for answer in journal.finished[other.name]
        ]
        for target in job.targets:
            rows += training_rows.rows(
                job.stage, job.corpus, job.path, journal.finished[job.name], target,
                counting or None,
            )  # fmt: skip
    measurements.record(rows, "make stages")
    return {row.key for row in rows}


def run_pytest(journal, options):
    """Measure counting and encoding; return the keys of their rows."""
    name = "counting and encoding"
    if name not in journal.finished:
        with tempfile.TemporaryDirectory() as directory:
            output = Path(directory) / "results.json"
            say(f"{name} ...")
            subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                 str(HERE / "bench_counting.py"), str(HERE / "bench_encoder.py"),
                 "-k", "test_counting or test_encode or test_decode", "--benchmark-only",
                 "--corpus-bytes", str(options.corpus_bytes), f"--benchmark-json={output}"],
                check=True, cwd=HERE.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            rows = report.rows_of(json.loads(output.read_text()))
        measurements.record(rows, "make stages")
        journal.add(name, [list(row.key) for row in rows])
    return {tuple(key) for key in journal.finished[name]}


def run_peers(corpora, journal):
    """Measure other libraries from the file to the vocabulary; return the keys of their rows."""
    keys = set()
    for corpus in corpora:
        for vocab_size in VOCAB_SIZES[1:]:
            name = f"other libraries, {corpus}, {vocab_size:,} tokens"
            if name not in journal.finished:
                say(f"{name} ...")
                found = peers.compare(corpus.path, vocab_size, CORES, 3, list(peers.LIBRARIES))
                rows = [
                    peer_row(row, corpus, vocab_size)
                    for row in found
                    if "error" not in row and row["trainer"] != "ours"
                ]
                for row in found:
                    if "error" in row:
                        say(f"{row['trainer']} is left out: {row['error']}")
                measurements.record(rows, "make stages")
                journal.add(name, [list(row.key) for row in rows])
            keys |= {tuple(key) for key in journal.finished[name]}
    return keys


def peer_row(row, corpus, vocab_size):
    return Measurement(
        "end-to-end", corpus.name, corpus.num_bytes, vocab_size, row["trainer"], row["rounds"],
        corpus.num_bytes / 1e6, "MB", peak_memory=int(row["peak_megabytes"] * 1e6), is_peer=True,
        note=f"merged tokens: {row['agreement']}",
    )  # fmt: skip


def run_programs(journal):
    """Run the programs that measure or draw something else for docs/stages.md."""
    for name in PROGRAMS:
        if name in journal.finished:
            continue
        say(f"{name} ...")
        if subprocess.run([sys.executable, str(HERE / name)], check=False).returncode:
            say(f"{name} failed: what it makes stays as it is")
        else:
            journal.add(name, True)


def run_owt_sized(web_bytes, journal, options):
    """Measure the text of the size of OpenWebText, or extrapolate to it; return the keys."""
    measured = None
    if web_bytes:
        name = f"OpenWebText's size, {web_bytes:,} bytes"
        if name not in journal.finished:
            say(f"{name}: writing the text ...")
            with tempfile.TemporaryDirectory(dir=options.web_directory) as directory:
                path = Path(directory) / "web.txt"
                owt_sized.make_text(path, web_bytes)
                say("training on it ...")
                journal.add(name, owt_sized.measure(path))
        measured = journal.finished[name]
    rows = owt_sized.rows(measured, web_bytes or owt_sized.OWT_BYTES, measurements.read())
    measurements.record(rows, "make stages")
    return {row.key for row in rows}


def keep_only(recorded):
    """Drop the rows of earlier runs from the comparisons that were measured whole here."""
    rows = [
        row for row in measurements.read()
        if row.key in recorded or row.comparison not in MEASURED_HERE
    ]  # fmt: skip
    measurements.write(rows)


if __name__ == "__main__":
    main()
