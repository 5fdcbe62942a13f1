"""A watched training run and the race, compared with the trainers."""

import itertools
import time

import pytest

from cs336_basics._support.errors import InputError
from cs336_basics.bpe import NaiveTrainer
from cs336_basics.bpe.recorder import Recorder
from cs336_basics.bpe.trace import MergeTrace, Work
from cs336_basics.playground import learning
from cs336_basics.playground.learning import MOST_STEPS, MOST_WATCHED, race, stages, watch
from cs336_basics.tokenizer import visible
from tests.errors import rejects

# Texts of a few words yield fewer merges than requested.
pytestmark = pytest.mark.filterwarnings("ignore:no pair was left:UserWarning")

TEXT = "low low low low low lower lower widest widest widest newest newest newest newest newest"


def joined(parts):
    return "".join(text for text, _ in parts)


@pytest.mark.parametrize("stage", stages())
def test_every_step_is_that_of_the_naive_trainer(stage):
    _, merges = NaiveTrainer().train_from_iterator([TEXT], 256 + MOST_STEPS, [])
    for step in range(len(merges) + 1):
        state = watch({"text": TEXT, "stage": stage, "step": step})
        assert (state["step"], state["last"]) == (step, len(merges))
        if step:
            assert [joined(part) for part in state["merged"]] == [*map(visible, merges[step - 1])]
        if step < len(merges):
            best = [joined(part) for part in state["pairs"][0]["pair"]]
            assert best == [*map(visible, merges[step])]
            assert state["work"]["occurrences"] > 0
    assert state["pairs"] == []
    assert state["work"] is None


def test_ties_are_counted_and_words_with_the_pair_marked():
    state = watch({"text": TEXT})
    counts = [pair["count"] for pair in state["pairs"]]
    assert counts == sorted(counts, reverse=True)
    assert state["num_tied"] == counts.count(counts[0]) > 1
    best = tuple(joined(part) for part in state["pairs"][0]["pair"])
    for word in state["words"]:
        symbols = [joined(symbol) for symbol in word["symbols"]]
        assert word["has_best"] == (best in itertools.pairwise(symbols))
    assert sum(word["count"] for word in state["words"]) == len(TEXT.split())


def test_empty_long_and_wrong_requests():
    assert watch({"text": ""})["words"] == []
    assert watch({"text": "a b", "step": 10**9})["step"] == 1
    assert watch({"text": "ab " * 600})["num_words"] == 3
    with rejects(None, f"{MOST_WATCHED:,}"):
        watch({"text": "a" * (MOST_WATCHED + 1)})
    with rejects("stage", "'x'"):
        watch({"text": "a", "stage": "x"})
    for wrong in ({"merges": 0}, {"seconds": 1e9}, {"text": "a" * 100_001}):
        with pytest.raises(InputError):
            race(wrong, print)


def rows_of(asked):
    rows = []
    race(asked, rows.append)
    return rows


def test_all_stages_race_and_learn_the_same_merges():
    rows = rows_of({"merges": 30, "seconds": 30})
    last = {row["stage"]: row for row in rows if row["ended"]}
    assert list(last) == stages()
    points = {
        stage: [p for r in rows if r["stage"] == stage for p in r["points"]] for stage in stages()
    }
    for stage in stages():
        assert last[stage]["same"]
        assert points[stage][-1]["merges"] == 30
        merges = [point["merges"] for point in points[stage]]
        assert merges == sorted(set(merges))
    assert points["naive"][-1]["positions"] > points["incremental"][-1]["positions"]
    assert points["incremental"][-1]["pairs_searched"] > 0
    assert points["heap"][-1]["pairs_searched"] == 0 < points["heap"][-1]["heap_entries"]


def test_the_race_does_not_include_building_the_vocabulary(monkeypatch):
    finish = Recorder.finish

    def slow_finish(recorder):
        time.sleep(0.2)  # counts as "building the vocabulary"
        finish(recorder)

    monkeypatch.setattr(Recorder, "finish", slow_finish)
    monkeypatch.setattr(learning, "_ROUNDS", 1)
    points = [point for row in rows_of({"text": TEXT, "merges": 3}) for point in row["points"]]
    assert sum(point["merges"] == 3 for point in points) == len(stages())
    assert all(point["seconds"] < 0.2 for point in points)


def test_a_slow_stage_is_cut_and_a_closed_race_ends():
    naive = []

    def take(row):
        if row["stage"] != "naive":
            raise InterruptedError
        naive.append(row)

    with pytest.raises(InterruptedError):
        race({"merges": 5000, "seconds": 0.2}, take)
    assert naive[-1]["ended"]
    assert naive[-1]["points"] or naive[-2]["points"]


def test_a_short_stage_runs_several_times_and_its_median_run_is_shown(monkeypatch):
    runs = []

    class Trainer:
        def __init__(self, trace, num_workers):
            self.trace = trace

        def train_from_counts(self, counts, vocab_size):
            runs.append([3, 1, 5, 2, 4][len(runs) % 5] / 100)
            for _ in range(2):
                self.trace(MergeTrace(0, b"a", b"b", 1, 0, 0, runs[-1], 0, 0, Work()))

    monkeypatch.setattr(learning, "get_trainer", lambda stage: Trainer)
    monkeypatch.setattr(learning, "stages", lambda: ["one", "two"])
    rows = rows_of({"merges": 2})
    assert len(runs) == 10
    assert [row["points"][-1]["seconds"] for row in rows] == [0.06, 0.06]
    del runs[:]
    monkeypatch.setattr(learning, "_SHORT", 0)  # the first run is shown while it takes place
    assert rows_of({"merges": 2})[0]["ended"] is False
    assert len(runs) == 2
