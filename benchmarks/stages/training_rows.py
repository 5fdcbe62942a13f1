"""Create rows for `merging`, `end-to-end` and `shipped` from the answers of `trainer_run.py`.

A time is kept only if another trainer learns the same merges.
"""

from functools import cache

from benchmarks.report.measurements import Measurement
from benchmarks.stages import trainer_run
from benchmarks.stages.extrapolation import (
    can_be_stopped,
    checkpoint_merges,
    extrapolated,
    work_at,
    work_profile,
)

FIRST_MERGE = 257
"""Number of tokens before the first merge: 256 bytes and one special token."""

MOST_MERGES = 32_000 - FIRST_MERGE


def checked_runs(stage, path, targets, rounds=1, **options):
    """Run a stage to the last of several numbers of merges, and return the checked answers.

    They do not include the merges.
    """
    answers = [trainer_run.run(stage, path, targets, **options) for _ in range(rounds)]
    check(stage, path, answers)
    return [{key: value for key, value in a.items() if key != "merges"} for a in answers]


@cache
def profile_of(path):
    """Return the work for each merge of a text. See `extrapolation.py`."""
    return work_profile(trainer_run.words_of(path), checkpoint_merges([MOST_MERGES]))


@cache
def expected_merges(path):
    """Return the merges of a text, on which `native` and `memoryview` must agree."""
    found = [trainer_run.run(s, path, [MOST_MERGES])["merges"] for s in ("native", "memoryview")]
    if found[0] != found[1]:
        raise AssertionError(f"{path}: native and memoryview learn different merges")
    return found[0]


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
        counted: The counting times of each round (see `counting.py`).
    """
    work = len(expected_merges(path)[:target])
    num_bytes = path.stat().st_size
    runs = [with_work(stage, path, answer["checkpoints"]) for answer in answers]
    reached = [phases_at(stage, path, checkpoints, work) for checkpoints in runs]
    stopped = [checkpoints[-1][0] for checkpoints in runs if checkpoints[-1][0] < work]
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
    checkpoints = runs[0]  # stored once, in the row of the last target that was reached
    merging = Measurement(
        comparison="merging", seconds=loop, work=work, unit="merges", phases=phases,
        measured=min(stopped) if stopped else None,
        checkpoints=checkpoints if len(checkpoints) > 1 and checkpoints[-1][0] <= work else [],
        **common,
    )  # fmt: skip
    found = [merging]
    for comparison in ("end-to-end", "shipped") if counted else ():
        counting = [times[comparison] for times in counted]
        found.append(Measurement(
            comparison=comparison, seconds=[a + b for a, b in zip(counting, loop, strict=True)],
            work=num_bytes / 1e6, unit="MB",
            phases={"reading and counting": counting, **phases},
            measured=num_bytes / 1e6 * min(stopped) / work if stopped else None, **common,
        ))  # fmt: skip
    return found


def with_work(stage, path, checkpoints):
    """Return the checkpoints of a run with the work so far."""
    if not can_be_stopped(stage):
        return [[*checkpoint, {}] for checkpoint in checkpoints]
    profile = profile_of(path)
    return [[number, phases, work_at(profile, number, stage)] for number, phases in checkpoints]


def phases_at(stage, path, checkpoints, num_merges):
    """Return each phase's time in seconds up to a number of merges, extrapolated if necessary."""
    for merges, phases, _ in checkpoints:
        if merges == num_merges:
            return phases
    return extrapolated(stage, checkpoints, work_at(profile_of(path), num_merges, stage))
