"""The experiments at test size: all run, are reported, and go on where they were stopped."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cs336_basics.commands import experiments, train
from cs336_basics.commands._options import parse_command_line
from cs336_basics.commands.experiments import SCALES, main, plan
from cs336_basics.runs.run_dir import RunDirectory


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The output of a whole command, on one thread."""
    out = tmp_path_factory.mktemp("experiments") / "out"
    assert main(["--scale", "test", "--out", str(out), "--num-workers", "1"]) == 0
    return out


def again(out, *words):
    return main(["--scale", "test", "--out", str(out), "--num-workers", "1", *words])


def without_seconds(report):
    return [line.rsplit("|", 2)[0] for line in report.splitlines()]


def groups_of(name):
    scale = SCALES[name]
    return plan(scale, parse_command_line(["--config", scale.config, *scale.options]).config)


@pytest.mark.parametrize("name", SCALES)
def test_every_scale_plans_the_experiments_of_the_course(name):
    scale, groups = SCALES[name], groups_of(name)
    assert [group.name for group in groups] == [
        "learning-rate",
        "batch-size",
        "normalization",
        "position",
        "feed-forward",
    ]
    runs = {run.name: run for group in groups for run in group.experiments}
    configs = {
        run.name: parse_command_line(
            ["--config", scale.config, *scale.options, *run.options]
        ).config
        for run in runs.values()
    }
    base = configs["baseline"]
    for group in groups:
        assert [run.options for run in group.experiments].count(runs["baseline"].options) == 1
        assert [run.name for run in group.experiments].count("baseline") == 1
    assert configs["no-norm"].model.norm == configs["no-norm-lower"].model.norm == "none"
    assert configs["no-norm"].schedule == base.schedule
    assert configs["no-norm-lower"].schedule.max_learning_rate == scale.lower_rate
    assert configs["post-norm"].model.norm == "post"
    assert configs["nope"].model.position == "none"
    assert configs["silu"].model.ffn == "silu"
    assert configs["silu"].model.d_ff == 4 * base.model.d_model
    parameters = configs["silu"].model.num_parameters() / base.model.num_parameters()
    assert name == "test" or 0.97 < parameters < 1.03
    for run in groups[1].experiments:  # the batch sizes share one budget, and its evaluations
        config = configs[run.name]
        tokens = config.max_steps * config.batch_size
        assert tokens == pytest.approx(base.max_steps * base.batch_size, rel=0.05)
        assert config.eval_every * config.batch_size == pytest.approx(
            base.eval_every * base.batch_size, rel=0.35
        )
    rates = [configs[run.name].schedule.max_learning_rate for run in groups[0].experiments]
    assert rates == sorted(rates)
    assert rates == list(scale.learning_rates)


def test_everything_is_reported(finished):
    report = (finished / "report.md").read_text()
    groups = groups_of("test")
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
                assert float(cells[3].split()[0]) == pytest.approx(rows[-1]["val_loss"], abs=1e-4)
    diverging = next(
        line for line in report.splitlines() if line.startswith("| learning rate 1e+06")
    )
    assert "diverged" in diverging


def test_every_run_that_took_a_step_has_its_curve(tmp_path, monkeypatch):
    legends = []

    def note(figure, *_, **__):
        legends.append([text.get_text() for text in figure.axes[0].get_legend().get_texts()])

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", note)
    training = {"step": 1, "tokens": 64, "train_loss": 5.0}
    validation = {"step": 1, "tokens": 64, "val_loss": 5.0}
    curves = {"whole": [training, validation], "diverged": [training], "missing": []}
    experiments.plot_curves(tmp_path / "curves.png", "Curves", curves)
    assert legends == [["whole", "diverged"]]


def test_a_run_that_diverges_in_an_evaluation_has_diverged(tmp_path):
    scale = experiments.SCALES["test"]
    command = [*("--config", scale.config), *scale.options, *("--device", "cpu", "--model.norm")]
    command += ["none", "--eval-every", "1", "--schedule.max-learning-rate", "1e30"]
    run = tmp_path / "run"
    for _ in range(2):
        assert experiments.run_training(run, "run", [*command, "--num-workers", "1"]) == 0
        message = json.loads((run / "diverged.json").read_text())["message"]
        assert "the validation loss is nan" in message
        (run / "diverged.json").unlink()  # as where the command is killed before it is written


def test_what_is_finished_is_not_run_again(finished, monkeypatch, capsys):
    def fail(_arguments):
        raise AssertionError("trained again")

    before = (finished / "report.md").read_bytes()
    monkeypatch.setattr(train, "main", fail)
    assert again(finished) == 0
    assert (finished / "report.md").read_bytes() == before
    assert "report.md" in capsys.readouterr().out


def test_goes_on_where_it_was_stopped(finished, tmp_path, monkeypatch):
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    report = (out / "report.md").read_text()
    started = []

    def stopped(arguments):
        """Like Ctrl-C: the run saves itself, and the command ends with its status."""
        started.append(arguments)
        return 130

    for name in ("post-norm", "nope"):
        shutil.rmtree(out / "runs" / name)
    monkeypatch.setattr(train, "main", stopped)
    assert again(out) == 130
    assert len(started) == 1
    assert str(out / "runs" / "post-norm") in started[0]
    monkeypatch.undo()
    assert again(out) == 0

    now = (out / "report.md").read_text().replace(str(out), str(finished))
    assert without_seconds(now) == without_seconds(report)


def test_a_killed_command_goes_on_to_the_same_report(finished, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "cs336_basics", "experiments", "--scale", "test"]
    command += ["--out", str(out), "--num-workers", "1"]
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    # In the middle of a run, whichever it is by then.
    deadline = time.monotonic() + 60
    while len(list(out.glob("runs/*/metrics.jsonl"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert not (out / "runs" / "silu").exists()
    assert again(out) == 0
    now = (out / "report.md").read_text().replace(str(out), str(finished))
    assert without_seconds(now) == without_seconds((finished / "report.md").read_text())


def test_a_run_that_was_stopped_is_resumed(finished, tmp_path, monkeypatch):
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    run = RunDirectory(out / "runs" / "silu")
    run.truncate_metrics(4)
    called = []

    def resumed(arguments):
        called.append(arguments)
        return 130

    monkeypatch.setattr(train, "main", resumed)
    # On another machine than it was begun on: both may have changed.
    assert again(out, "--device", "cpu", "--num-workers", "2") == 130
    assert called == [["--resume", str(run.path), "--device", "cpu", "--num-workers", "2"]]


def test_other_options_are_refused_in_the_same_directory(finished, tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("Once upon a time. " * 100)
    assert again(finished, "--train-path", str(text)) == 2
    assert "other options" in capsys.readouterr().err


def test_a_missing_text_is_named(tmp_path, capsys):
    assert again(tmp_path / "out", "--train-path", str(tmp_path / "none.txt")) == 2
    error = capsys.readouterr().err
    assert "none.txt" in error
    assert error.count("\n") == 1


def test_a_token_file_is_refused(tmp_path, capsys):
    assert again(tmp_path / "out", "--train-path", "tokens.npy") == 2
    assert "tokens.npy is a token file" in capsys.readouterr().err


def test_a_run_that_cannot_start_is_named(finished, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    shutil.rmtree(out / "runs" / "nope")

    def refuses(_arguments):
        print("error: no memory for it")
        return 2

    monkeypatch.setattr(experiments.train, "main", refuses)
    assert again(out) == 2
    assert "nope: error: no memory for it" in capsys.readouterr().err
