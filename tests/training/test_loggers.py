"""Loggers, tested with fake packages and with any real packages that are installed."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
import sqlite3
import sys
import types

import pytest

from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.training.loggers import check_loggers, open_loggers
from tests.errors import rejects
from tests.processes import run_python

ROWS = [
    {"step": 1, "tokens": 64, "train_loss": 5.5, "seconds": 0.1},
    {"step": 2, "tokens": 128, "val_loss": 5.25, "seconds": 0.2},
]
SETTINGS = {"model": {"d_model": 512}}


@pytest.fixture
def fake(monkeypatch):
    """Return a function that replaces a package and returns a list of the calls to it."""

    def install(name):
        calls, module = [], types.ModuleType(name)
        for function in ("init", "log", "finish"):
            record = functools.partial(lambda *call: calls.append(call), function)
            setattr(module, function, lambda *a, record=record, **options: record(a, options))
        monkeypatch.setitem(sys.modules, name, module)
        return calls

    return install


@pytest.fixture(autouse=True)
def no_variables_of_wandb(monkeypatch):
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)


def log_and_close(logger, rows):
    for row in rows:
        logger.log(row)
    logger.close()


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_rows_reach_every_logger(tmp_path, fake, name):
    calls = fake(name)
    (logger,) = open_loggers([name], RunDirectory(tmp_path), SETTINGS, 0)
    log_and_close(logger, ROWS)
    (init, _, settings), *logged, (finish, *_) = calls
    assert (init, finish) == ("init", "finish")
    assert settings["name"] == tmp_path.name
    assert settings["config"]["model"]["d_model"] == 512
    if name == "wandb":
        assert settings["mode"] == "offline"
        assert settings["project"] == "cs336_basics"
        assert settings["dir"] == str(tmp_path)
    assert logged == [
        ("log", ({"tokens": 64, "train_loss": 5.5, "seconds": 0.1},), {"step": 1}),
        ("log", ({"tokens": 128, "val_loss": 5.25, "seconds": 0.2},), {"step": 2}),
    ]


def test_a_resumed_run_continues_its_wandb_run_only_online(tmp_path, monkeypatch, fake):
    calls = fake("wandb")
    for mode, name, step in (
        ("online", "one", 0),
        ("online", "one", 8),
        ("online", "two", 0),
        ("offline", "one", 8),
    ):
        monkeypatch.setenv("WANDB_MODE", mode)
        path = tmp_path / name
        path.mkdir(exist_ok=True)
        open_loggers(["wandb"], RunDirectory(path), SETTINGS, step)
    first, resumed, other, offline = (options for _, _, options in calls)
    assert first["id"] == resumed["id"] != other["id"]
    assert first["resume"] == resumed["resume"] == "allow"
    assert "mode" not in first  # WANDB_MODE sets it
    assert "id" not in offline
    assert "resume" not in offline


@pytest.mark.parametrize("mode", ["offline", "online"])
def test_the_environment_decides_for_wandb(tmp_path, monkeypatch, fake, mode):
    calls = fake("wandb")
    monkeypatch.setenv("WANDB_MODE", mode)
    for name, value in (("PROJECT", "theirs"), ("NAME", "run 7"), ("DIR", "/elsewhere"),
                        ("RUN_ID", "abc"), ("RESUME", "must")):  # fmt: skip
        monkeypatch.setenv(f"WANDB_{name}", value)
    open_loggers(["wandb"], RunDirectory(tmp_path), SETTINGS, 0)
    # An argument to init would override the variable.
    assert calls[0][2] == {"config": SETTINGS}
    assert not (tmp_path / "wandb").exists()


@pytest.mark.parametrize(("step", "resume"), [(0, "never"), (8, "allow")])
def test_a_new_trackio_run_does_not_continue_an_old_one(tmp_path, fake, step, resume):
    calls = fake("trackio")
    open_loggers(["trackio"], RunDirectory(tmp_path), SETTINGS, step)
    assert calls[0][2]["resume"] == resume


def test_a_failing_logger_warns_once_and_keeps_earlier_rows(tmp_path, monkeypatch, fake):
    calls = fake("trackio")
    (logger,) = open_loggers(["trackio"], RunDirectory(tmp_path), SETTINGS, 0)
    logger.log(ROWS[0])

    def log(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys.modules["trackio"], "log", log)
    with pytest.warns(UserWarning, match=r"trackio .*No space left") as caught:
        log_and_close(logger, [ROWS[1], ROWS[1]])
    assert [call[0] for call in calls] == ["init", "log", "finish"]
    assert len(caught) == 1


def test_a_logger_that_cannot_start_is_a_warning_and_the_others_start(tmp_path, monkeypatch, fake):
    def init(**options):
        raise RuntimeError("no API key configured")

    calls, _ = fake("trackio"), fake("wandb")
    monkeypatch.setattr(sys.modules["wandb"], "init", init)
    with pytest.warns(UserWarning, match=r"wandb .*no API key configured"):
        (logger,) = open_loggers(["wandb", "trackio"], RunDirectory(tmp_path), SETTINGS, 0)
    log_and_close(logger, ROWS)
    assert [call[0] for call in calls] == ["init", "log", "log", "finish"]


USE_TRACKIO = """
import sys
from pathlib import Path
from tests.training.test_loggers import ROWS, SETTINGS
from cs336_basics.training.loggers import open_loggers
from cs336_basics.checkpoints.run_dir import RunDirectory

for step in (0, 2):
    (logger,) = open_loggers(["trackio"], RunDirectory(Path(sys.argv[1])), SETTINGS, step)
    for row in ROWS:
        logger.log({**row, "step": row["step"] + step})
    logger.close()
"""


def test_trackio_stores_the_rows_of_all_sessions(tmp_path):
    if importlib.util.find_spec("trackio") is None:
        pytest.skip("trackio is not installed")
    # trackio reads TRACKIO_DIR when it is imported.
    run_python(USE_TRACKIO, tmp_path / "run-1", TRACKIO_DIR=str(tmp_path / "store"))
    with contextlib.closing(sqlite3.connect(tmp_path / "store" / "cs336_basics.db")) as store:
        found = store.execute("SELECT run_name, step, metrics FROM metrics ORDER BY id").fetchall()
    assert [(name, step) for name, step, _ in found] == [("run-1", n) for n in (1, 2, 3, 4)]
    assert [json.loads(text) for _, _, text in found[:2]] == [
        {name: row[name] for name in row if name != "step"} for row in ROWS
    ]


def test_tensorboard_writes_event_files(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (logger,) = open_loggers(["tensorboard"], RunDirectory(tmp_path), SETTINGS, 0)
    log_and_close(logger, ROWS)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("val_loss")] == [(2, 5.25)]


def test_wandb_works_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    (logger,) = open_loggers(["wandb"], RunDirectory(tmp_path), SETTINGS, 0)
    log_and_close(logger, ROWS)
    assert list((tmp_path / "wandb").glob("offline-run-*"))


@pytest.mark.parametrize("name", ["wandb", "trackio", "tensorboard"])
def test_the_error_for_a_missing_package_has_the_install_command(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with rejects("log_to", name, f"[{name}]"):
        check_loggers([name])


def test_log_to_takes_several_loggers_or_none(tmp_path, fake):
    for name in ("wandb", "trackio"):
        fake(name)
    assert len(open_loggers(["wandb", "trackio"], RunDirectory(tmp_path), SETTINGS, 0)) == 2
    assert open_loggers([], RunDirectory(tmp_path), SETTINGS, 0) == []
