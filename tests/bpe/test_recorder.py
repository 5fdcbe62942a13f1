"""Recorder: every trainer's phases, progress and trace."""

import functools
import time
from itertools import pairwise

import pytest

from cs336_basics import TRAINERS, BPE_Trainer
from cs336_basics.bpe.recorder import PHASES, Recorder
from cs336_basics.bpe.rules import Rules
from cs336_basics.bpe.trace import Work
from cs336_basics.counting import WordCounts
from cs336_basics.splitting import SPLITTINGS
from tests.bpe.trainers import WORKED_EXAMPLE, every_trainer, merge_everywhere, traced, train
from tests.texts import long_text


@functools.cache  # the trainers learn the same merges
def counted_from_scratch(word_counts, merges):
    """For each merge, return the pair's count and its occurrences in the distinct words."""
    words = [([bytes([byte]) for byte in word], count) for word, count in word_counts]
    found = []
    for left, right in merges:
        count_of_pair = sum(
            count * (symbols[i : i + 2] == [left, right])
            for symbols, count in words
            for i in range(len(symbols) - 1)
        )
        found.append((count_of_pair, merge_everywhere(words, left, right)))
    return found


class Clock:
    """A clock that only moves when a trainer works."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Alphabetical(BPE_Trainer):
    """A trainer that merges words in alphabetical order, and needs 1, 10 or 100 s for a step."""

    name = "alphabetical"

    def learn(self, words, counts, rules, step):
        with step("counting pairs"):
            pairs = dict(zip(words, counts, strict=True))
            clock.now += 1
        while True:
            with step("finding the maximum"):
                best = min(pairs, default=None)
                clock.now += 10
            if best is None:
                return
            with step("updating"):
                count = pairs.pop(best)
                clock.now += 100
            yield best, count, self.slow_work

    def slow_work(self):
        clock.now += 1000
        return Work()


clock = Clock()


@pytest.mark.parametrize("num_merges", [2, 9])
def test_each_step_is_timed(num_merges):
    trace = []
    recorder = Recorder(trace.append, clock=clock)
    counts = WordCounts.from_mapping({b"cd": 1, b"ab": 2})
    merges, made = Alphabetical().learn_merges(counts, Rules(num_merges), recorder)
    recorder.finish()
    assert merges == [(b"a", b"b"), (b"c", b"d")]
    assert made == [b"ab", b"cd"]
    # The third search finds nothing. It is not made after the last wanted merge.
    finding = 20 if num_merges == 2 else 30
    assert [recorder.timings[phase] for phase in PHASES] == [
        0,
        0,
        1,
        finding,
        200,
        0,
        201 + finding,
    ]
    # Computing the work for the trace is not part of any phase.
    assert [row[4:9] for row in trace] == [(0, 1, 10, 100, 0), (0, 0, 10, 100, 0)]
    assert [(row.merge, row.pair_count) for row in trace] == [(0, 2), (1, 1)]


@every_trainer
def test_timings_have_all_phases_and_restart_at_zero(name, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(long_text(3, 20_000), encoding="utf-8")
    trainer = TRAINERS[name](num_workers=1)
    trainer.train(path, 300, [])
    first = trainer.timings
    assert tuple(first) == PHASES
    assert all(seconds > 0 for seconds in first.values())
    trainer.train_from_counts(WORKED_EXAMPLE, 257)
    second = trainer.timings
    assert second["reading and counting"] < first["reading and counting"]
    assert 0 < second["updating"] < first["updating"]


@every_trainer
@pytest.mark.parametrize("splitting", SPLITTINGS)
def test_the_phases_add_up_to_the_time_of_the_call(name, splitting, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(long_text(3, 400_000), encoding="utf-8")
    trainer = TRAINERS[name](splitting=splitting, num_workers=1)
    uncovered = []
    while not uncovered or (uncovered[-1] >= 0.005 and len(uncovered) < 5):
        # Other processes may interrupt a run, so one good run of five is enough.
        start = time.perf_counter()
        trainer.train(path, 290, [])
        seconds = time.perf_counter() - start
        phases = sum(trainer.timings[phase] for phase in PHASES[:-1])
        assert phases == pytest.approx(trainer.timings["total"])
        uncovered.append(seconds - phases)
    # Checking the arguments is not part of a phase.
    assert uncovered[-1] < 0.005, uncovered


@every_trainer
def test_all_merges_are_advanced(name, words):
    recorder, steps = Recorder(), []
    recorder.advance = steps.append
    counts = WordCounts.from_mapping(words)
    merges, made = TRAINERS[name]().learn_merges(counts, Rules(300), recorder)
    assert sum(steps) == len(merges) == 300
    assert made == [left + right for left, right in merges]


@every_trainer
@pytest.mark.parametrize(
    "options",
    [{}, {"min_frequency": 20, "max_token_length": 4, "tie_break": "huggingface"}],
    ids=repr,
)
def test_the_trace_equals_the_result_and_changes_no_merge(name, options, words):
    for counts in (words, {b"a" * 9: 2, b"aab" * 30: 1}):
        merges, trace = traced(name, counts, 250, **options)
        assert merges == train(name, counts, 250, **options)[1]
        assert [(t.left, t.right) for t in trace] == merges
        assert [t.merge for t in trace] == list(range(len(merges)))
        assert all(before.pair_count >= after.pair_count for before, after in pairwise(trace))
        found = [(t.pair_count, t.work.occurrences) for t in trace]
        assert found == counted_from_scratch(tuple(counts.items()), tuple(merges))


@every_trainer
def test_a_continued_trace_starts_at_the_next_rank(name, words):
    first = train("native", words, 14)
    merges, trace = traced(name, words, 20, continue_from=first)
    assert [row.merge for row in trace] == list(range(14, 34))
    assert [(row.left, row.right) for row in trace] == merges[14:]


@every_trainer
def test_the_seconds_add_up_to_the_timings(name, words):
    trace = []
    trainer = TRAINERS[name](trace=trace.append)
    trainer.train_from_counts(words, 256 + 250)
    assert all(min(row[4:9]) >= 0 and row.seconds > 0 for row in trace)
    assert all(t.seconds_setting_up == 0 for t in trace[1:])
    assert all(t.seconds_building == 0 for t in trace[:-1])
    if "counting pairs" in trainer.work_units:  # pairs are counted before every search
        assert all(t.seconds_counting > 0 for t in trace[1:])
    for column, phase in enumerate(PHASES[1:-1], start=4):
        seconds = sum(row[column] for row in trace)
        assert seconds == pytest.approx(trainer.timings[phase], rel=1e-3, abs=1e-5), phase


@every_trainer
def test_an_error_in_the_trace_ends_the_training(name):
    def full(merge):
        raise OSError("the disk is full")

    trainer = TRAINERS[name](trace=full)
    with pytest.raises(OSError, match="the disk is full"):
        trainer.train_from_counts(WORKED_EXAMPLE, 260)
