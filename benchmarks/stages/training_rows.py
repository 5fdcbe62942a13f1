"""Create rows for `merging`, `end-to-end` and `shipped` from the answers of `trainer_run.py`.

A time is kept only if another trainer learns the same merges.
"""

import statistics
from functools import cache

from benchmarks.report.measurements import Measurement
from benchmarks.stages import trainer_run
from benchmarks.stages.extrapolation import (
    WORK,
    checkpoint_merges,
    extrapolated,
    work_at,
    work_profile,
)

FIRST_MERGE = 257
"""Number of tokens before the first merge: 256 bytes and one special token."""

MOST_MERGES = 32_000 - FIRST_MERGE


def request(stage, path, targets, *, count=True, max_seconds=1e9, omit=()):
    """Return a request for `trainer_run.run`. The targets are numbers of merges."""
    return {
        "stage": stage, "path": str(path), "targets": sorted(targets), "count": count,
        "max_seconds": max_seconds, "omit": omit,
        "work": profile_of(path) if stage in WORK else [],
    }  # fmt: skip


@cache
def profile_of(path):
    """Return the work for each merge of a text. See `extrapolation.py`."""
    return work_profile(trainer_run.words_of(path), checkpoint_merges([MOST_MERGES]))


@cache
def expected_merges(path):
    """Return the merges of a text, on which `native` and `memoryview` must agree."""
    native = trainer_run.run(request("native", path, [MOST_MERGES]))["merges"]
    memoryview = trainer_run.run(request("memoryview", path, [MOST_MERGES], count=False))["merges"]
    if native != memoryview:
        raise AssertionError(f"{path}: native and memoryview learn different merges")
    return native


def check(stage, path, answers):
    """Check that the answers contain the same merges that other trainers learn.

    Raises:
        AssertionError: If the merges differ.
    """
    expected = expected_merges(path)
    for answer in answers:
        merges = answer["merges"]
        if merges != expected[: len(merges)]:
            same = sum(a == b for a, b in zip(merges, expected, strict=False))
            raise AssertionError(
                f"{path}: {stage} learns different merges; {same:,} of {len(merges):,} are the same"
            )


def rows(stage, corpus, path, answers, target, counted=()):
    """Return the rows for a target: the merge loop and, if counting was timed, the whole training.

    Args:
        corpus: Name of the text.
        answers: One checked answer per round.
        target: Number of merges. It may exceed the number of merges that the text yields.
        counted: Answers with the counting times, if `answers` does not have them.
    """
    work = len(expected_merges(path)[:target])
    num_bytes = path.stat().st_size
    reached = [phases_at(stage, path, answer["checkpoints"], work) for answer in answers]
    stopped = [c[-1][0] for c in (answer["checkpoints"] for answer in answers) if c[-1][0] < work]
    phases = {
        phase: [phases[phase] for phases in reached] for phase in trainer_run.LOOP_PHASES
    }  # fmt: skip
    loop = [sum(seconds) for seconds in zip(*phases.values(), strict=True)]
    common = {
        "corpus": corpus, "bytes": num_bytes, "vocab_size": target + FIRST_MERGE, "stage": stage,
        "words": answers[0]["words"],
        "peak_memory": max(answer["peak_memory"] for answer in answers),
        "note": "" if work == target else f"the text has only {work:,} merges",
    }  # fmt: skip
    # Stored once, in the row of the last target that was reached.
    units = set(WORK.get(stage, {}).values())
    checkpoints = [[number, phases, {unit: w for unit, w in done.items() if unit in units}]
                   for number, phases, done in answers[0]["checkpoints"]]  # fmt: skip
    merging = Measurement(
        comparison="merging", seconds=loop, work=work, unit="merges", phases=phases,
        measured=min(stopped) if stopped else None,
        checkpoints=checkpoints if len(checkpoints) > 1 and checkpoints[-1][0] <= work else [],
        **common,
    )  # fmt: skip
    found = [merging]
    for comparison, key in (("end-to-end", "counting"), ("shipped", "shipped")):
        counting = [answer[key] for answer in counted or answers]
        if None in counting:
            continue
        if len(counting) != len(loop):  # measured separately, with a different number of rounds
            counting = [statistics.median_low(counting)] * len(loop)
        found.append(Measurement(
            comparison=comparison, seconds=[a + b for a, b in zip(counting, loop, strict=True)],
            work=num_bytes / 1e6, unit="MB",
            phases={"reading and counting": counting, **phases},
            measured=num_bytes / 1e6 * min(stopped) / work if stopped else None, **common,
        ))  # fmt: skip
    return found


def phases_at(stage, path, checkpoints, num_merges):
    """Return each phase's time in seconds up to a number of merges, extrapolated if necessary."""
    for merges, phases, _ in checkpoints:
        if merges == num_merges:
            return phases
    return extrapolated(stage, checkpoints, work_at(profile_of(path), num_merges))
