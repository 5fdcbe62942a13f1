"""Stop signals, and the clock of a run that has several sessions."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import types

import pytest

import cs336_basics.training.session as session_module
import cs336_basics.training.trainer as trainer_module
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.training.data import TokenWindows
from cs336_basics.training.session import Clock, Progress, StopSignals, TrainingInterrupted
from tests.training.tiny_runs import (
    Crash,
    assert_resumes_exactly,
    changed,
    make,
    resumed,
)


def signal_at(trainer, step, number):
    """Send a signal to this process when the optimizer takes a step."""

    def signalled(*_):
        if trainer.step + 1 == step:
            os.kill(os.getpid(), number)

    trainer.optimizer.register_step_pre_hook(signalled)


def test_seconds_count_all_sessions_but_not_the_time_between(tmp_path, monkeypatch):
    now = 1000.0
    fake = types.SimpleNamespace(perf_counter=lambda: now)
    monkeypatch.setattr(session_module, "time", fake)
    # There are no rows or evaluations between the first step and the signals.
    config = changed(log_every=20, eval_every=20, checkpoint_every=20)

    def session(stop_at=None):
        trainer = resumed(tmp_path, config)

        def wait(*_):
            nonlocal now
            now += 3.0  # the duration of a step

        trainer.optimizer.register_step_pre_hook(wait)
        if stop_at is None:
            return trainer.fit()
        signal_at(trainer, stop_at, signal.SIGTERM)
        with pytest.raises(TrainingInterrupted):
            trainer.fit()
        return None

    session(stop_at=7)
    now += 5000.0
    session(stop_at=15)
    now += 5000.0
    assert session().seconds == pytest.approx(20 * 3.0)
    rows = RunDirectory(tmp_path).read_metrics()
    assert [row["seconds"] for row in rows] == pytest.approx([3.0, 60.0, 60.0])


def test_the_time_per_step_is_the_mean_since_the_last_call(monkeypatch):
    now = 1000.0
    fake = types.SimpleNamespace(perf_counter=lambda: now)
    monkeypatch.setattr(session_module, "time", fake)
    clock = Clock(0.0)
    for durations in ([0.25], [0.5, 0.75, 1.0], [0.0]):
        for seconds in durations:
            now += 7.0  # between two steps
            clock.start_step()
            now += seconds
            clock.end_step()
        found = clock.seconds_per_step()
        assert found == pytest.approx(sum(durations) / len(durations), abs=1e-6)
        assert found > 0  # rates are divided by it


HANGUP = pytest.param(
    getattr(signal, "SIGHUP", None),
    marks=pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has no SIGHUP"),
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, HANGUP])
def test_a_signal_saves_and_stops_and_the_run_resumes_exactly(tmp_path, uninterrupted, number):
    def as_usual(_number, _frame):  # under nohup, SIGHUP would be ignored
        raise Crash

    before = signal.signal(number, as_usual)
    try:
        trainer = make(tmp_path)
        signal_at(trainer, 7, number)
        with pytest.raises(TrainingInterrupted) as stop:
            trainer.fit()
        assert (stop.value.signal_number, stop.value.step) == (number, 7)
        assert trainer.run.steps_saved()[-1] == 7
        assert signal.getsignal(number) is as_usual
    finally:
        signal.signal(number, before)
    assert_resumes_exactly(tmp_path, uninterrupted, step=7)


@pytest.mark.parametrize("number", [HANGUP])
def test_a_hangup_that_was_ignored_stays_ignored(tmp_path, number):
    before = signal.signal(number, signal.SIG_IGN)  # as nohup does
    try:
        trainer = make(tmp_path, changed(max_steps=4))
        signal_at(trainer, 2, number)
        assert trainer.fit().step == 4
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize(
    ("first", "second", "saved"),
    [
        (signal.SIGTERM, signal.SIGTERM, True),
        (signal.SIGINT, signal.SIGTERM, True),
        (signal.SIGINT, signal.SIGINT, False),
        (signal.SIGTERM, signal.SIGINT, False),
    ],
)
def test_only_a_second_ctrl_c_interrupts_saving(tmp_path, monkeypatch, first, second, saved):
    def as_usual(_number, _frame):
        raise Crash

    trainer = make(tmp_path)
    save = trainer_module.write_checkpoint
    signal_at(trainer, 2, first)

    def saving(*arguments):
        os.kill(os.getpid(), second)
        save(*arguments)

    monkeypatch.setattr(trainer_module, "write_checkpoint", saving)
    before = {number: signal.signal(number, as_usual) for number in (first, second)}
    try:
        with pytest.raises(TrainingInterrupted if saved else Crash) as stop:
            trainer.fit()
        assert signal.getsignal(first) is signal.getsignal(second) is as_usual
    finally:
        for number in reversed(before):
            signal.signal(number, before[number])
    assert trainer.run.steps_saved() == [2] * saved
    if saved:
        assert stop.value.signal_number == first


def test_a_checkpoint_saved_for_a_signal_does_not_replace_others(tmp_path, uninterrupted):
    for at, saved in ((17, [10, 15, 16, 17]), (18, [10, 15, 16, 18])):
        trainer = resumed(tmp_path)
        signal_at(trainer, at, signal.SIGTERM)
        with pytest.raises(TrainingInterrupted):
            trainer.fit()
        assert trainer.run.steps_saved() == saved
    assert_resumes_exactly(tmp_path, uninterrupted)


@pytest.mark.parametrize("step", [8, 20])
def test_a_signal_in_an_evaluation_stops_at_once_and_the_run_resumes_exactly(
    tmp_path, uninterrupted, monkeypatch, step
):
    read = TokenWindows.batch
    evaluated = []

    def signal_in_an_evaluation(*arguments):
        if arguments[0] is trainer.evaluation.windows and trainer.step == step:
            evaluated.append(step)
            os.kill(os.getpid(), signal.SIGTERM)
        return read(*arguments)

    trainer = make(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(TokenWindows, "batch", signal_in_an_evaluation)
        with pytest.raises(TrainingInterrupted) as stop:
            trainer.fit()
    assert (stop.value.signal_number, stop.value.step) == (signal.SIGTERM, step)
    assert evaluated == [step]  # only one of two batches
    assert trainer.run.steps_saved()[-1] == step
    assert math.isfinite(trainer.evaluate()[0])  # outside `fit`, a signal stops nothing
    assert_resumes_exactly(tmp_path, uninterrupted, step=step)


def test_training_works_in_a_thread_without_signal_handlers(tmp_path):
    results = []
    trainer = make(tmp_path, changed(max_steps=2))
    thread = threading.Thread(target=lambda: results.append(trainer.fit()))
    thread.start()
    thread.join()
    assert results[0].step == 2


def test_a_process_that_says_why_it_failed_is_not_ended_by_a_late_signal():
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(RuntimeError), StopSignals(ignores_late=True):
            raise RuntimeError("another process has ended")
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("is_terminal", [False, True])
@pytest.mark.parametrize("is_first", [False, True])
def test_the_first_process_has_a_bar_on_a_terminal(capsys, monkeypatch, is_terminal, is_first):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr(session_module, "_SECONDS_BETWEEN_LINES", -1)
    row, lines = {"step": 1, "tokens": 8, "train_loss": 2.5, "tokens_per_second": 4.0}, []
    with Progress(0, 5, lines.append, is_first) as progress:
        progress.update()
        progress.show(row)
    has_bar = is_terminal and is_first
    assert ("loss 2.500, 4 tokens/s" in capsys.readouterr().err) == has_bar
    assert lines == ([] if has_bar else ["step 1/5: loss 2.500, 4 tokens/s, 8 s left"])
