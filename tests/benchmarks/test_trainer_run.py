"""Runs of a stage: recording, stopping and extrapolation."""

import pytest

from cs336_basics import TRAINERS

if not all(trainer.is_built for trainer in TRAINERS.values()):
    pytest.skip("the compiled trainers are not built", allow_module_level=True)

from benchmarks.stages import ablations, run, trainer_run, training_rows
from benchmarks.stages.counting import counting_times
from benchmarks.stages.extrapolation import can_be_stopped, extrapolated, work_profile
from cs336_basics.data.datasets import write_sample

pytestmark = pytest.mark.filterwarnings("ignore:no pair was left")
TARGETS = (60, 120)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = tmp_path_factory.mktemp("text") / "text.txt"
    write_sample(file, 60_000)
    return file


@pytest.mark.parametrize(
    "stage",
    [
        pytest.param(name, marks=[] if name in ("naive", "native") else pytest.mark.slow)
        for name in TRAINERS
    ],
)
def test_a_run_learns_the_merges_of_the_others_and_records_its_time(path, stage):
    (answer,) = training_rows.checked_runs(stage, path, TARGETS)
    assert answer["checkpoints"][-1][0] == TARGETS[-1]
    counted = counting_times(stage, path, 1)
    for target in TARGETS[-1:] if not can_be_stopped(stage) else TARGETS:
        rows = training_rows.rows(stage, "sample", path, [answer], target, counted)
        assert [row.comparison for row in rows] == ["merging", "end-to-end", "shipped"]
        for row in rows:
            assert not row.is_extrapolated
            assert row.median == pytest.approx(sum(s[0] for s in row.phases.values()))
    answer = trainer_run.run(stage, path, TARGETS)
    answer["merges"][3] = (b"x", b"y")
    with pytest.raises(AssertionError, match="119 of 120"):
        training_rows.check(stage, path, [answer])


def test_a_slow_run_stops_and_is_extrapolated(path):
    counts = trainer_run.words_of(path)
    checkpoints, merges = trainer_run.learn("naive", counts, TARGETS, max_seconds=0.02)
    assert checkpoints[-1][0] == len(merges) < TARGETS[-1]
    answer = {"checkpoints": checkpoints, "words": 1, "peak_memory": 1}
    (row,) = training_rows.rows("naive", "sample", path, [answer], TARGETS[-1])
    assert row.measured == len(merges)
    assert row.median > sum(checkpoints[-1][1].values())


def test_the_work_of_each_merge_is_counted():
    first, last = work_profile({b"low": 5, b"lot": 2, b"a": 9}, [1, 2])
    assert 0 < first[1].pop("entries") < last[1].pop("entries")
    # The words are "l o w" and "l o t" before the first merge, and "lo w" and "lo t" before the
    # second.
    assert first == [1, {"symbols": 6, "words": 8, "pairs": 3, "touched": 6}]
    assert last == [2, {"symbols": 10, "words": 14, "pairs": 5, "touched": 8}]


def test_the_cost_of_a_unit_of_work_is_extrapolated(path):
    profile = training_rows.profile_of(path)
    end, work_of_all = profile[-1]
    costs = {"finding the maximum": 2e-7, "updating": 1e-6}

    def seconds(work):
        units = TRAINERS["incremental"].work_units
        return {"counting pairs": 0.5} | {p: c * work[units[p]] for p, c in costs.items()}

    part = [[merges, seconds(work), work] for merges, work in profile if merges <= end / 8]
    predicted = extrapolated("incremental", part, work_of_all)
    assert predicted == pytest.approx(seconds(work_of_all))  # counting costs nothing more
    # The mean cost of the first merges would be a poor prediction.
    mean = sum(part[-1][1].values()) / part[-1][0] * end
    assert abs(mean / sum(seconds(work_of_all).values()) - 1) > 0.2


@pytest.mark.slow  # compiles the variants
def test_variants_of_an_ablation_learn_the_same_merges(path):
    rows = ablations.measure(ablations.VARIANTS, "sample", path, 300, rounds=1)
    assert [row.stage for row in rows] == list(ablations.VARIANTS)
    assert {row.work for row in rows} == {43}


def test_finished_jobs_are_not_run_again(path, tmp_path):
    jobs = [run.Job("native", "owt", path, (number,), 1) for number in (20, 30)]
    options = run.argparse.Namespace(max_seconds=60)
    run.run_all(jobs[:1], 1, run.Finished(tmp_path / "finished.json", {}), options)
    finished = run.Finished(tmp_path / "finished.json", {})
    before = finished[jobs[0].name]
    run.run_all(jobs, 2, finished, options)
    assert finished[jobs[0].name] is before
    assert list(finished) == [job.name for job in jobs]
    assert not run.Finished(tmp_path / "finished.json", {"machine": "another"})
