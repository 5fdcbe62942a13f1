"""Runs of one stage: what they record, when they stop, and how their time is continued."""

import continuation
import pytest
import trainer_run
import training_rows

from cs336_basics.datasets import write_sample
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
            assert not row.is_continued
            assert row.median == pytest.approx(sum(s[0] for s in row.phases.values()))
    assert answer["peak_memory"] > 10_000_000


def test_wrong_merges_are_refused(path):
    answer = trainer_run.run(training_rows.request("heap", path, TARGETS))
    answer["merges"][3] = (b"x", b"y")
    with pytest.raises(AssertionError, match="119 of 120 are the same"):
        training_rows.check("heap", path, [answer])


def test_slow_run_stops_and_is_continued(path):
    counts = dict(count_words(path, Splitter(special_tokens=["<|endoftext|>"])))
    checkpoints, merges = trainer_run.learn("naive", counts, TARGETS, 0.0, 0.02)
    assert 0 < len(merges) < TARGETS[-1]
    assert checkpoints[-1][0] == len(merges)
    answer = {"checkpoints": checkpoints, "counting": None, "words": 1, "peak_memory": 1}
    (row,) = training_rows.rows("naive", "sample", path, [answer], TARGETS[-1])
    assert row.measured == len(merges)
    assert row.median > sum(checkpoints[-1][1].values())


def power_law(last, costs):
    """Checkpoints of a run whose phases cost `height * merge**slope` at each merge."""
    phases = dict.fromkeys(costs, 0.0)
    wanted = set(continuation.checkpoint_merges([last]))
    checkpoints = []
    for merge in range(1, last + 1):
        for phase, (height, slope) in costs.items():
            phases[phase] += height * merge**slope
        if merge in wanted:
            checkpoints.append((merge, dict(phases)))
    return checkpoints


def test_trend_of_each_phase_is_continued():
    costs = {"counting pairs": (0.3, -0.2), "finding the maximum": (0.01, 0.4)}
    whole = power_law(10_000, costs)
    part = [c for c in whole if c[0] <= 1_500]
    predicted = continuation.continued(part, 10_000)
    for phase, seconds in whole[-1][1].items():
        assert predicted[phase] == pytest.approx(seconds, rel=0.02)
    # The mean of the first merges is far off: this is what the trend is for.
    mean = part[-1][1]["finding the maximum"] / part[-1][0] * 10_000
    assert mean < 0.6 * whole[-1][1]["finding the maximum"]


def test_phase_that_is_over_is_not_continued():
    checkpoints = [(m, {"counting pairs": 0.5, "updating": 0.1 * m}) for m in (8, 16, 32, 64)]
    assert continuation.continued(checkpoints, 640)["counting pairs"] == 0.5


def test_too_few_checkpoints_are_refused():
    with pytest.raises(ValueError, match="too few to see a trend"):
        continuation.continued([(1, {"updating": 1.0}), (2, {"updating": 2.0})], 100)
