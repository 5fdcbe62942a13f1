"""Metrics that go elsewhere on request; the real packages where they are installed."""

from __future__ import annotations

import dataclasses
import sys
import types

import pytest

from cs336_basics.training.config import TrainConfig
from cs336_basics.training.loggers import open_loggers
from cs336_basics.training.run_dir import RunDirectory

ROWS = [
    {"step": 1, "tokens": 64, "train_loss": 5.5, "seconds": 0.1},
    {"step": 2, "tokens": 128, "val_loss": 5.25, "seconds": 0.2},
]


def config(names):
    return dataclasses.replace(TrainConfig(), log_to=names)


class Recorder:
    """Stands for a package: notes every call."""

    def __init__(self):
        self.calls = []

    def module(self, name, functions):
        module = types.ModuleType(name)
        for function in functions:
            setattr(module, function, self.function(function))
        return module

    def function(self, name):
        def call(*arguments, **options):
            self.calls.append((name, arguments, options))
            return types.SimpleNamespace(log=self.function("log"), finish=self.function("finish"))

        return call


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_rows_are_handed_on(tmp_path, monkeypatch, name):
    recorder = Recorder()
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setitem(sys.modules, name, recorder.module(name, ["init", "log", "finish"]))
    (logger,) = open_loggers(config(name), RunDirectory(tmp_path), 0)
    for row in ROWS:
        logger.log(row)
    logger.close()
    init, *logged, finish = recorder.calls
    assert init[0] == "init"
    assert init[2]["name"] == tmp_path.name
    assert init[2]["config"]["model"]["d_model"] == 512
    if name == "wandb":
        assert init[2]["mode"] == "offline"
        assert init[2]["dir"] == str(tmp_path)
    assert logged == [
        ("log", ({"tokens": 64, "train_loss": 5.5, "seconds": 0.1},), {"step": 1}),
        ("log", ({"tokens": 128, "val_loss": 5.25, "seconds": 0.2},), {"step": 2}),
    ]
    assert finish[0] == "finish"


def test_tensorboard_writes_event_files(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (logger,) = open_loggers(config("tensorboard"), RunDirectory(tmp_path), 0)
    for row in ROWS:
        logger.log(row)
    logger.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("val_loss")] == [(2, 5.25)]


def test_wandb_works_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    (logger,) = open_loggers(config("wandb"), RunDirectory(tmp_path), 0)
    for row in ROWS:
        logger.log(row)
    logger.close()
    assert list((tmp_path / "wandb").glob("offline-run-*"))


@pytest.mark.parametrize("name", ["wandb", "trackio", "tensorboard"])
def test_a_package_that_is_not_there_is_named_with_the_command(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ValueError, match=rf"log_to asks for {name}.*pip install.*\[{name}\]"):
        open_loggers(config(name), RunDirectory(tmp_path), 0)


def test_several_loggers_and_none(tmp_path, monkeypatch):
    for name in ("wandb", "trackio"):
        monkeypatch.setitem(sys.modules, name, Recorder().module(name, ["init", "log", "finish"]))
    assert len(open_loggers(config("wandb,trackio"), RunDirectory(tmp_path), 0)) == 2
    assert open_loggers(config(""), RunDirectory(tmp_path), 0) == []
    with pytest.raises(ValueError, match="log_to is 'wandb,mlflow': it must be a list of"):
        config("wandb,mlflow")
