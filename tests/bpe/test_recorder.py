"""Recorder: every trainer's phases, progress and trace."""

import contextlib
import functools
import time
from itertools import pairwise

import pytest

from cs336_basics import TRAINERS, BPE_Trainer
from cs336_basics.bpe.recorder import PHASES, Recorder
from cs336_basics.counting.word_counter import SPLITTINGS
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


class Slow(BPE_Trainer):
    """A trainer that merges words in alphabetical order."""

    name = "slow"

    def learn(self, words, num_merges):
        merges = []
        pairs = self.count_pairs(words)
        while len(merges) < num_merges and (best := self.find_best(pairs)):
            self.merge(words, best, pairs)
            merges.append(best)
        return merges

    def count_pairs(self, words):
        return dict(zip(words, self.counts, strict=True))

    def find_best(self, pairs):
        return min(pairs, default=None)

    def merge(self, words, best, pairs):
        del pairs[best]


def test_each_step_is_timed(monkeypatch):
    # The clock advances by one second each time it is read, so each step takes one second.
    monkeypatch.setattr("time.perf_counter", iter(range(10**6)).__next__)
    trace = []
    trainer = Slow(trace=trace.append)
    with pytest.warns(UserWarning, match="after 2 of 9"):
        _, merges = trainer.train_from_counts({b"cd": 1, b"ab": 2}, 265)
    assert merges == [(b"a", b"b"), (b"c", b"d")]
    # One setup, one count, three searches and two merges. Tracing is not part of any phase.
    phases = [trainer.timings[phase] for phase in PHASES]
    assert phases == [1, 1, 1, 3, 2, 1, 9]
    assert [row[4:9] for row in trace] == [(1, 1, 1, 1, 0), (0, 0, 1, 1, 1)]
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
    while not uncovered or (uncovered[-1] >= 0.02 and len(uncovered) < 5):
        # Other processes may interrupt a run, so one good run of five is enough.
        start = time.perf_counter()
        trainer.train(path, 290, [])
        seconds = time.perf_counter() - start
        phases = sum(trainer.timings[phase] for phase in PHASES[:-1])
        assert phases == pytest.approx(trainer.timings["total"])
        uncovered.append(1 - phases / seconds)
    assert uncovered[-1] < 0.02, uncovered


@every_trainer
def test_all_merges_are_advanced(name, words, monkeypatch):
    steps = []

    def watched(recorder, show, num_merges):
        recorder.advance = steps.append
        return contextlib.nullcontext()

    monkeypatch.setattr(Recorder, "progress_bar", watched)
    merges = train(name, words, 300)[1]
    assert sum(steps) == len(merges) == 300


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
    if name == "naive":  # pairs are counted before every search
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
