"""Training on a text of the size of OpenWebText: measured where possible, else extrapolated.

The text is that of `web_text.py`: OpenWebText's size, its number of distinct words, their
lengths and frequencies. `native` is measured from the start, `memoryview` in its merge loop.
For a stage in Python,

- the merge loop on the whole sample of web text is scaled by the number of distinct words to the
  power that its time follows (the table `growth`), and
- counting is measured on the beginning of the text and extrapolated at that rate.
"""

import statistics

from benchmarks.corpora import head_of
from benchmarks.report import tables
from benchmarks.report.measurements import Measurement
from benchmarks.stages import trainer_run, training_rows
from benchmarks.stages.extrapolation import exponent

VOCAB_SIZE = 32_000
NUM_MERGES = VOCAB_SIZE - training_rows.FIRST_MERGE
COUNTED_BYTES = 100_000_000
ROUNDS = 3  # the first run on a text that has just been written takes up to 1.5 times as long


def measure(path):
    """Return stage -> answers of its rounds, for the stages that can be run whole, and "rates".

    Raises:
        AssertionError: the two learn different merges.
    """
    request = training_rows.request
    native = [trainer_run.run(request("native", path, [NUM_MERGES])) for _ in range(ROUNDS)]
    memoryview = [trainer_run.run(request("memoryview", path, [NUM_MERGES], count=False))]
    merges = [answer.pop("merges") for answer in native + memoryview]
    if any(learned != merges[0] for learned in merges):
        raise AssertionError(f"native and memoryview learn different merges of {path}")
    head = head_of(path, COUNTED_BYTES)
    rates = {}
    for stage in ("naive", "incremental", "heap", "memoryview"):
        answer = trainer_run.run(request(stage, head, []))
        rates[stage] = head.stat().st_size / answer["counting"]
    return {"native": native, "memoryview": memoryview, "rates": rates}


def rows(measured, num_bytes, merging):
    """Return the rows of all stages.

    Args:
        measured: what `measure` returned.
        num_bytes: of the text.
        merging: rows of this comparison, to extrapolate from.
    """
    found = []
    num_words = measured["native"][0]["words"]
    for stage in tables.STAGES:
        fit = merge_loop_fit(merging, stage, num_words)
        answers = measured.get(stage, [])
        loops = [sum(answer["checkpoints"][-1][1].values()) for answer in answers]
        if not loops and fit is None:
            continue
        note = "" if loops else "merge loop extrapolated by the growth with distinct words"
        if loops and fit:
            loop = tables.time_text(statistics.median(loops))
            note = f"merge loop {loop}; the growth fit says {tables.time_text(fit)}"
        is_whole = stage not in measured["rates"]
        if is_whole:
            counting = [answer["counting"] for answer in answers]
        else:
            counting = [num_bytes / measured["rates"][stage]]
            note += ", counting at the rate measured on the beginning"
        seconds = [a + b for a, b in zip(counting, loops or [fit], strict=True)]
        found.append(Measurement(
            "owt-sized", "web", num_bytes, VOCAB_SIZE, stage, seconds,
            num_bytes / 1e6, "MB", phases={"reading and counting": counting},
            peak_memory=max(a["peak_memory"] for a in answers) if is_whole else None, note=note,
            measured=None if is_whole else COUNTED_BYTES / 1e6,
        ))  # fmt: skip
    return found


def merge_loop_fit(merging, stage, num_words):
    """Return the seconds of a merge loop on so many words, None if too little was measured."""
    own = [row for row in merging if (row.corpus, row.stage) == ("owt", stage)]
    largest = [row for row in own if row.vocab_size == VOCAB_SIZE]
    _, by_words, _ = tables.growth_series(own, "owt", stage)
    if not largest or len(by_words) < 3:
        return None
    row = max(largest, key=lambda row: row.bytes)
    return row.median * (num_words / row.words) ** exponent(*zip(*by_words, strict=True))
