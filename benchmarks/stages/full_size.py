"""Measure or extrapolate the training time for texts as large as whole corpora.

`generated_text.py` writes the texts. On the text that resembles TinyStories, every stage is
measured for at most `max_seconds`. The text that resembles OpenWebText has too many distinct words
for the stages in Python. On this text, only `native` and the merge loop of `memoryview` are
measured. For the other stages, the time of the merge loop on the OpenWebText sample is scaled by
the number of distinct words, raised to the power in the `growth` table. The measured times of
`memoryview` and `native` show the error of this fit.

Counting in Python is measured on the first part of the text and extrapolated at that rate.
"""

from benchmarks.report import tables
from benchmarks.report.measurements import Measurement
from benchmarks.stages import training_rows
from benchmarks.stages.counting import SLOW_BYTES, counting_times
from benchmarks.stages.extrapolation import can_be_stopped, exponent
from cs336_basics.bpe import DEFAULT_TRAINER

VOCAB_SIZES = {"tinystories": 10_000, "owt": 32_000}
"""Corpus -> vocabulary size in the course."""

MANY_WORDS = ("owt",)
"""Corpora with too many distinct words for the stages in Python."""

ROUNDS = 3  # for the default trainer, whose first run on a new file takes up to 1.5 times as long


def measure(path, corpus, merging, max_seconds):
    """Return the rows of all stages.

    Args:
        merging: Rows of the `merging` comparison, to extrapolate from.

    Raises:
        AssertionError: If two stages learn different merges.
    """
    target = VOCAB_SIZES[corpus] - training_rows.FIRST_MERGE
    num_bytes = path.stat().st_size
    loops = {}
    measured = [s for s in tables.STAGES if corpus not in MANY_WORDS or not can_be_stopped(s)]
    for stage in reversed(measured):
        rounds = ROUNDS if stage == DEFAULT_TRAINER else 1
        answers = training_rows.checked_runs(stage, path, [target], rounds, max_seconds=max_seconds)
        (loops[stage],) = training_rows.rows(stage, corpus, path, answers, target)
    num_words = loops[DEFAULT_TRAINER].words
    fits = {stage: merge_loop_fit(merging, stage, corpus, num_words) for stage in tables.STAGES}
    # The error of the fit for stages with a known time. The fits of other stages may be as far off.
    factors = {
        stage: loop.median / fits[stage]
        for stage, loop in loops.items()
        if fits[stage] and not can_be_stopped(stage)
    }
    found = []
    for stage in tables.STAGES:
        if stage in loops:
            seconds = loops[stage].seconds
            note = f"merge loop {tables.time_text(loops[stage].median)}"
            if loops[stage].is_extrapolated:
                note += f", extrapolated from {loops[stage].measured:,} merges"
            elif stage in factors:
                times = tables.three_digits(factors[stage])
                note += f"; {times} times the prediction of the growth fit"
        elif fits[stage] and factors:
            seconds = [fits[stage] * factor for factor in (1, max(factors.values()))]
            note = "merge loop by the growth fit, up to its largest error"
        else:
            continue
        is_default = stage == DEFAULT_TRAINER
        if not is_default:
            note += "; counting at the rate of the first 100 MB"
        counting = [t["end-to-end"] for t in counting_times(stage, path, len(seconds))]
        found.append(Measurement(
            "full-size", corpus, num_bytes, VOCAB_SIZES[corpus], stage,
            [a + b for a, b in zip(counting, seconds, strict=True)],
            num_bytes / 1e6, "MB", phases={"reading and counting": counting},
            peak_memory=loops[stage].peak_memory if is_default else None, note=note,
            measured=None if is_default else SLOW_BYTES / 1e6,
        ))  # fmt: skip
    return found


def merge_loop_fit(merging, stage, corpus, num_words):
    """Return the predicted time of a merge loop in seconds, or None if too little was measured."""
    own = [row for row in merging if (row.corpus, row.stage) == (corpus, stage)]
    largest = [row for row in own if row.vocab_size == VOCAB_SIZES[corpus]]
    _, by_words, _ = tables.growth_series(own, corpus, stage)
    if not largest or len(by_words) < 3:
        return None
    row = max(largest, key=lambda row: row.bytes)
    return row.median * (num_words / row.words) ** exponent(*zip(*by_words, strict=True))
