"""Measure or extrapolate the training time for texts as large as whole corpora.

`generated_text.py` writes the texts. On the text that resembles TinyStories, every stage is
measured for at most `max_seconds`. The text that resembles OpenWebText has too many distinct words
for the stages in Python. On this text, only `native` and the merge loop of `memoryview` are
measured. For the other stages, the time of the merge loop on the OpenWebText sample is scaled by
the number of distinct words, raised to the power in the `growth` table. The measured times of
`memoryview` and `native` show the error of this fit.

Counting in Python is measured on the first part of the text and extrapolated at that rate.
"""

import statistics

from benchmarks.corpora import head_of
from benchmarks.report import tables
from benchmarks.report.measurements import Measurement
from benchmarks.stages import trainer_run, training_rows
from benchmarks.stages.extrapolation import exponent, extrapolated, work_at

VOCAB_SIZES = {"tinystories": 10_000, "owt": 32_000}
"""Corpus -> vocabulary size in the course."""

MEASURED = {
    "tinystories": ("naive", "incremental", "heap", "memoryview", "native"),
    "owt": ("memoryview", "native"),
}
"""Corpus -> stages whose merge loop is run."""

COUNTED_BYTES = 100_000_000
ROUNDS = 3  # for `native`, whose first run on a new file takes up to 1.5 times as long


def measure(path, corpus, max_seconds):
    """Return a dict from stage to its answers, for the stages in MEASURED.

    The dict also has the keys "rates" (stage -> bytes counted per second) and "profile".

    Raises:
        AssertionError: If two stages learn different merges.
    """
    target = VOCAB_SIZES[corpus] - training_rows.FIRST_MERGE
    found, rates = {}, {}
    for stage in reversed(MEASURED[corpus]):
        is_native = stage == "native"
        request = training_rows.request(
            stage, path, [target], count=is_native, max_seconds=max_seconds
        )
        found[stage] = [trainer_run.run(request) for _ in range(ROUNDS if is_native else 1)]
        training_rows.check(stage, path, found[stage])
        for answer in found[stage]:
            del answer["merges"]
    head = head_of(path, COUNTED_BYTES)
    for stage in ("naive", "incremental", "heap", "memoryview"):
        answer = trainer_run.run(training_rows.request(stage, head, []))
        rates[stage] = head.stat().st_size / answer["counting"]
    profile = training_rows.profile_of(path) if "naive" in found else []
    return {**found, "rates": rates, "profile": profile}


def rows(measured, corpus, num_bytes, merging):
    """Return the rows of all stages.

    Args:
        measured: Result of `measure`.
        num_bytes: Size of the text.
        merging: Rows of the `merging` comparison, to extrapolate from.
    """
    found = []
    num_words = measured["native"][0]["words"]
    loops = {stage: loop_seconds(measured, stage, corpus) for stage in MEASURED[corpus]}
    fits = {stage: merge_loop_fit(merging, stage, corpus, num_words) for stage in tables.STAGES}
    # The error of the fit for stages with a known time. The fits of other stages may be as far off.
    factors = [
        loops[stage][0][0] / fits[stage]
        for stage in loops
        if fits[stage] and stage not in tables.PYTHON_STAGES
    ]
    for stage in tables.STAGES:
        seconds, stopped = loops.get(stage, (None, None))
        notes = []
        if seconds is None:
            if fits[stage] is None or not factors:
                continue
            seconds = [fits[stage] * factor for factor in (1, max(factors))]
            notes.append("merge loop by the growth fit, up to its largest error")
        else:
            notes.append(f"merge loop {tables.time_text(statistics.median(seconds))}")
            if stopped:
                notes[0] += f", extrapolated from {stopped:,} merges"
            elif fits[stage] and stage not in tables.PYTHON_STAGES:
                factor = statistics.median(seconds) / fits[stage]
                notes.append(
                    f"{tables.three_digits(factor)} times the prediction of the growth fit"
                )
        if stage in measured["rates"]:
            counting = [num_bytes / measured["rates"][stage]] * len(seconds)
            notes.append("counting at the rate of the first 100 MB")
        else:
            counting = [answer["counting"] for answer in measured[stage]]
        is_whole = stage not in measured["rates"]
        found.append(Measurement(
            "full-size", corpus, num_bytes, VOCAB_SIZES[corpus], stage,
            [a + b for a, b in zip(counting, seconds, strict=True)],
            num_bytes / 1e6, "MB", phases={"reading and counting": counting},
            peak_memory=max(a["peak_memory"] for a in measured[stage]) if is_whole else None,
            note="; ".join(notes), measured=None if is_whole else COUNTED_BYTES / 1e6,
        ))  # fmt: skip
    return found


def loop_seconds(measured, stage, corpus):
    """Return the times of a merge loop's rounds in seconds, and where it stopped, if it did.

    The second value is the number of merges after which the loop was stopped, or None.
    """
    target = VOCAB_SIZES[corpus] - training_rows.FIRST_MERGE
    seconds, stopped = [], None
    for answer in measured[stage]:
        number, phases, _ = answer["checkpoints"][-1]
        if stage in tables.PYTHON_STAGES and number < target:
            stopped = number
            work = work_at(measured["profile"], target)
            phases = extrapolated(stage, answer["checkpoints"], work)
        seconds.append(sum(phases.values()))
    return seconds, stopped


def merge_loop_fit(merging, stage, corpus, num_words):
    """Return the predicted time of a merge loop in seconds, or None if too little was measured."""
    own = [row for row in merging if (row.corpus, row.stage) == (corpus, stage)]
    largest = [row for row in own if row.vocab_size == VOCAB_SIZES[corpus]]
    _, by_words, _ = tables.growth_series(own, corpus, stage)
    if not largest or len(by_words) < 3:
        return None
    row = max(largest, key=lambda row: row.bytes)
    return row.median * (num_words / row.words) ** exponent(*zip(*by_words, strict=True))
