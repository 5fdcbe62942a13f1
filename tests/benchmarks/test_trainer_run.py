"""Runs of one stage: what they record, when they stop, and how their time is extrapolated."""

import extrapolation
import pytest
import trainer_run
import training_rows
import work_profile

from cs336_basics.data.datasets import write_sample
from cs336_basics.pretokenization import Splitter, count_words

TARGETS = (60, 120)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = tmp_path_factory.mktemp("text") / "text.txt"
    write_sample(file, 200_000)
    return file


@pytest.mark.parametrize("stage", trainer_run.COUNTING)
def test_run_learns_the_merges_of_the_others_and_records_its_time(path, stage):
    answer = trainer_run.run(training_rows.request(stage, path, TARGETS))
    training_rows.check(stage, path, [answer])
    assert answer["learned"] == TARGETS[-1]
    for target in TARGETS[-1:] if stage in trainer_run.UNSTOPPABLE else TARGETS:
        for row in training_rows.rows(stage, "sample", path, [answer], target):
            assert not row.is_extrapolated
            assert row.median == pytest.approx(sum(s[0] for s in row.phases.values()))
    assert answer["peak_memory"] > 10_000_000


def test_wrong_merges_are_refused(path):
    answer = trainer_run.run(training_rows.request("heap", path, TARGETS))
    answer["merges"][3] = (b"x", b"y")
    with pytest.raises(AssertionError, match="119 of 120 are the same"):
        training_rows.check("heap", path, [answer])


def test_slow_run_stops_and_is_extrapolated(path):
    counts = dict(count_words(path, Splitter(special_tokens=["<|endoftext|>"])))
    work = training_rows.profile_of(path)
    checkpoints, merges = trainer_run.learn("naive", counts, TARGETS, work, 0.0, 0.02)
    assert 0 < len(merges) < TARGETS[-1]
    assert checkpoints[-1][0] == len(merges)
    answer = {"checkpoints": checkpoints, "counting": None, "words": 1, "peak_memory": 1}
    (row,) = training_rows.rows("naive", "sample", path, [answer], TARGETS[-1])
    assert row.measured == len(merges)
    assert row.median > sum(checkpoints[-1][1].values())


def test_work_profile_counts_symbols_and_pairs():
    counts = {b"low": 5, b"lot": 2, b"a": 9}
    (first, last) = work_profile.work_profile(counts, [1, 2])
    assert 0 < first[1].pop("entries") < last[1].pop("entries")
    # Before the first merge "l o w", "l o t"; before the second "lo w", "lo t".
    assert first == [1, {"symbols": 6, "words": 8, "pairs": 3, "touched": 6}]
    assert last == [2, {"symbols": 10, "words": 14, "pairs": 5, "touched": 8}]


def test_work_between_checkpoints_is_interpolated():
    profile = [[10, dict.fromkeys(work_profile.UNITS, 100)]]
    assert extrapolation.work_at(profile, 5)["pairs"] == 50


def run_with_costs(costs, profile, last):
    """Checkpoints of a run in which a unit of work always costs the same, plus a start."""
    return [
        [merges, {**{p: c * work[WORK[p]] for p, c in costs.items()}, "counting pairs": 0.5}, work]
        for merges, work in profile
        if merges <= last
    ]


WORK = work_profile.WORK["incremental"]


def test_cost_per_unit_of_work_is_extrapolated(path):
    profile = training_rows.profile_of(path)
    costs = {"finding the maximum": 2e-7, "updating": 1e-6}
    end = profile[-1][0]
    whole = run_with_costs(costs, profile, end)
    part = run_with_costs(costs, profile, end / 8)
    predicted = extrapolation.extrapolated("incremental", part, profile[-1][1])
    assert predicted == pytest.approx(whole[-1][1])  # counting, which is over, does not grow
    # The mean of the first merges is far off: this is what the work is for.
    mean = sum(part[-1][1].values()) / part[-1][0] * end
    assert abs(mean / sum(whole[-1][1].values()) - 1) > 0.2
