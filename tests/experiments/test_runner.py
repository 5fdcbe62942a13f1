"""Experiments at test scale are run, reported, and continued after an interruption."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys

import pytest

from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.experiments.plan import SCALES, plan
from cs336_basics.experiments.runner import run_experiments, run_one
from cs336_basics.training.config_files import find_config, load_config
from cs336_basics.training.session import TrainingInterrupted
from cs336_basics.training.trainer import Trainer
from tests.commands.conftest import no_plots  # noqa: F401 -- a fixture
from tests.commands.small_run import command, environment
from tests.errors import rejects
from tests.processes import wait

main = command("experiments")


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch):
    """Skip the figures, except in module fixtures and other processes."""
    name = "cs336_basics.experiments.report.plot_group"
    monkeypatch.setattr(name, lambda output, title, curves: None)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The output directory of a command that completed on one thread."""
    out = tmp_path_factory.mktemp("experiments") / "out"
    assert main(["--scale", "test", "--out", str(out), "--num-workers", "1"]) == 0
    return out


def again(out, *words):
    return main(["--scale", "test", "--out", str(out), "--num-workers", "1", *words])


def without_seconds(report):
    return [line.rsplit("|", 2)[0] for line in report.splitlines()]


def test_the_report_has_every_run_and_picture(finished):
    report = (finished / "report.md").read_text()
    scale = SCALES["test"]
    groups = plan(scale, load_config(find_config(scale.config), scale.values))
    for group in groups:
        assert f"## {group.title}\n" in report
        picture = finished / f"{group.name}.png"
        assert f"({picture.name})" in report
        assert picture.read_bytes().startswith(b"\x89PNG")
        for run in group.experiments:
            (row,) = {line for line in report.splitlines() if line.startswith(f"| {run.label} |")}
            cells = row.split("|")
            assert len(cells) == 8
            if "diverged" not in row:
                rows = RunDirectory(finished / "runs" / run.name).read_metrics()
                last = rows[-1]
                assert float(cells[3].split()[0]) == pytest.approx(last["val_loss"], abs=1e-4)
                assert float(cells[5]) == pytest.approx(last["val_bits_per_byte"], abs=1e-4)
    diverging = next(
        line for line in report.splitlines() if line.startswith("| learning rate 1e+06")
    )
    assert "diverged" in diverging


def test_finished_runs_are_not_trained_again(finished, monkeypatch, capsys):
    def fail(*_):
        raise AssertionError("trained again")

    before = (finished / "report.md").read_bytes()
    monkeypatch.setattr(Trainer, "fit", fail)
    assert again(finished) == 0
    assert (finished / "report.md").read_bytes() == before
    assert "report.md" in capsys.readouterr().out


def stop_every_run(monkeypatch):
    """Make each run stop as if by Ctrl-C. Return a list to which each run adds its trainer."""
    started = []

    def stopped(trainer):
        started.append(trainer)
        raise TrainingInterrupted(signal.SIGINT, trainer.step)

    monkeypatch.setattr(Trainer, "fit", stopped)
    return started


WITHOUT_PICTURES = """
import sys
import cs336_basics.experiments.report as report
import cs336_basics.training.trainer as trainer
from cs336_basics.__main__ import main
report.plot_group = trainer.plot_run = lambda *_: None
sys.exit(main(["experiments", *sys.argv[1:]]))
"""


def test_a_killed_command_continues_to_the_same_report(finished, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    for name in ("nope", "silu"):
        shutil.rmtree(out / "runs" / name)
    command = [sys.executable, "-c", WITHOUT_PICTURES, "--scale", "test"]
    command += ["--out", str(out), "--num-workers", "1"]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL)
    # Kill the command in the middle of the first missing run.
    wait((out / "runs" / "nope" / "metrics.jsonl").exists, 300)
    process.kill()
    process.wait()
    leftover = out / "runs" / "silu" / ".config.yaml.4194305-0123abcd.tmp"
    leftover.parent.mkdir()  # as if the kill had come while a run is created
    leftover.touch()
    assert again(out) == 0
    assert not leftover.exists()
    now = (out / "report.md").read_text().replace(str(out), str(finished))
    assert without_seconds(now) == without_seconds((finished / "report.md").read_text())


def test_an_interrupted_run_is_resumed(finished, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    run = RunDirectory(out / "runs" / "silu")
    run.truncate_metrics(4)
    run.checkpoint(8).unlink()
    started = stop_every_run(monkeypatch)
    # The device and the number of workers may change, because another machine may continue the run.
    assert again(out, "--device", "cpu", "--num-workers", "2") == 130
    assert "repeat the command to continue" in capsys.readouterr().err
    (trainer,) = started  # no finished run is started again
    assert trainer.run.path == run.path
    assert trainer.step == 4
    assert (trainer.config.device, trainer.config.num_workers) == ("cpu", 2)


def test_a_directory_with_other_options_is_rejected(finished, tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("Once upon a time. " * 100)
    assert again(finished, "--train-path", str(text)) == 2
    assert "experiments with other options" in capsys.readouterr().err


def test_a_token_file_among_texts_is_rejected(tmp_path):
    values = {"data.train_path": ("a.txt", "tokens.npy")}
    with rejects("data.train_path", "tokens.npy"):
        run_experiments(SCALES["test"], tmp_path / "out", values)


def test_data_that_another_process_prepares_are_left_alone(tmp_path):
    other = RunDirectory(tmp_path / "out" / "data")
    other.lock()
    temporary = other.path / ".train.npy.1-0123abcd.tmp"
    temporary.write_bytes(b"half")
    with rejects(None, other.path):
        run_experiments(SCALES["test"], tmp_path / "out", {})
    assert temporary.read_bytes() == b"half"
    other.unlock()


def test_json_lines_are_read_once_for_all_runs(tmp_path, monkeypatch):
    rows = [json.dumps({"body": f"Once there was a fox with the number {i}."}) for i in range(400)]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    started = []

    def record(directory, config):
        started.append(config.data.field)
        raise TrainingInterrupted(signal.SIGINT, 0)

    monkeypatch.setattr("cs336_basics.experiments.runner.run_one", record)
    words = ["--train-path", str(tmp_path / "a.jsonl"), "--field", "body"]
    assert again(tmp_path / "out", *words) == 130
    assert started == [None]


def test_a_run_can_diverge_before_its_first_checkpoint(tmp_path):
    changes = {
        **SCALES["test"].values,
        "device": "cpu",
        "num_workers": 1,
        "model.norm": "none",
        "eval_every": 1,
        "schedule.max_learning_rate": 1e30,
    }
    config = load_config(find_config(SCALES["test"].config), changes)
    run = tmp_path / "run"
    for _ in range(2):
        run_one(run, config)
        message = json.loads((run / "diverged.json").read_text())["message"]
        assert "step 1: the loss is nan" in message
        (run / "diverged.json").unlink()  # as if a kill had prevented the command from writing it
