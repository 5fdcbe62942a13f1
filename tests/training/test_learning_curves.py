"""Plots of learning curves, drawn by the `plot` command."""

from __future__ import annotations

import json
import os

import pytest

from cs336_basics._support.paths import printable_path
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.training.learning_curves import plot_group, plot_run
from tests.commands.small_run import command, error_of
from tests.processes import run_python
from tests.training.small_runs import write_two_runs

plot = command("plot")


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_two_runs(tmp_path)
    return tmp_path


def test_each_panel_has_the_curves_over_its_own_axis(runs, monkeypatch):
    drawn = []
    from matplotlib.axes import Axes

    real = Axes.plot

    def note(axes, xs, ys, **style):
        drawn.append((list(xs), list(ys)))
        return real(axes, xs, ys, **style)

    monkeypatch.setattr(Axes, "plot", note)
    assert plot(["plain", "fast"]) == 0
    assert len(drawn) == 3 * 2 * 2
    assert drawn[1] == ([5, 10], [5.0, 4.5])
    assert drawn[5] == ([320, 640], [5.0, 4.5])
    assert drawn[9] == ([50.0, 100.0], [5.0, 4.5])
    assert drawn[11] == ([25.0, 50.0], [4.5, 3.5])


@pytest.fixture
def legends(monkeypatch):
    """The labels in each plot's legend."""
    from matplotlib.figure import Figure

    found = []
    real = Figure.savefig

    def note(figure, *arguments, **options):
        real(figure, *arguments, **options)
        found.append([text.get_text() for text in figure.axes[0].get_legend().get_texts()])

    monkeypatch.setattr(Figure, "savefig", note)
    return found


# A malformed formula, a label that the legend leaves out, and a byte that is not UTF-8.
STRANGE_NAMES = ("run_${RATE}_${SEED}", "_draft", os.fsdecode(b"caf\xe9"))


@pytest.mark.parametrize("name", STRANGE_NAMES)
def test_a_run_may_have_any_name(runs, capsys, legends, name):
    (runs / "plain").rename(runs / name)
    plot_run(RunDirectory(name))
    assert plot([name, "fast", "--x", "step"]) == 0
    assert legends[0][0] == legends[1][0]
    shown = legends[1][0].strip().replace(r"\$", "$")
    assert shown == printable_path(name)
    assert legends[1][1:] == ["fast", "training", "validation"]


def test_runs_with_the_same_name_are_labelled_by_their_paths(runs, capsys, legends, monkeypatch):
    (runs / "new").mkdir()
    (runs / "fast").rename(runs / "new" / "plain")
    assert plot(["plain", "new/plain", "--x", "step"]) == 0
    assert legends == [["plain", "new/plain", "training", "validation"]]
    assert "new/plain" in capsys.readouterr().out
    monkeypatch.chdir("plain")
    assert plot([".", "--x", "step"]) == 0
    assert legends[1] == ["plain", "training", "validation"]


def test_a_run_without_evaluations_is_in_the_legend(runs, legends):
    metrics = runs / "plain" / "metrics.jsonl"
    metrics.write_text(metrics.read_text().splitlines(keepends=True)[0])
    assert plot(["plain", "fast", "--x", "step"]) == 0
    assert legends == [["plain", "fast", "training", "validation"]]


def append(run, **metrics):
    RunDirectory(run).append_metrics({"step": 11, "tokens": 704, **metrics}, {"seconds": 110.0})


@pytest.fixture
def drawn(monkeypatch):
    """The points of each line of the first panel, by label of the vertical axis."""
    from matplotlib.figure import Figure

    found = {}

    def note(figure, *_, **__):
        lines = figure.axes[0].lines
        found[figure.axes[0].get_ylabel()] = [list(line.get_xydata()[-1]) for line in lines]

    monkeypatch.setattr(Figure, "savefig", note)
    return found


def test_each_measure_has_its_own_lines(runs, drawn):
    append("plain", train_loss=4.0, lr=0.25, grad_norm=2.0)
    append("plain", val_loss=4.4, val_bits_per_byte=1.5)
    for y in ("bits-per-byte", "lr", "grad-norm"):
        assert plot(["plain", "--x", "step", "--y", y, "--overwrite"]) == 0
    expected = {"bits per byte": 1.5, "learning rate": 0.25, "norm of the gradient": 2.0}
    assert drawn == {label: [[11.0, value]] for label, value in expected.items()}


def test_a_run_without_the_measure_is_refused(runs, capsys):
    append("plain", lr=0.25)
    assert plot(["plain", "fast", "--y", "lr"]) == 2
    assert "fast/metrics.jsonl: no row has the measure lr" in error_of(capsys, "plot")
    assert not (runs / "runs.png").exists()


def test_the_last_evaluation_is_drawn_for_the_windows_of_the_others(runs, drawn):
    append("fast", val_loss=9.0, val_loss_subset=3.25)
    assert plot(["fast", "--x", "step"]) == 0
    assert drawn["cross-entropy loss (nats per token)"][1] == [11.0, 3.25]


def test_each_validation_source_has_a_line(runs, legends, capsys):
    append("plain", **{"val_loss": 4.0, "val_loss/code": 3.0, "val_loss/ko": 5.0})
    append("fast", **{"val_loss": 4.0, "val_loss/code": 2.0, "val_loss/code_subset": 2.5})
    assert plot(["plain", "fast", "--x", "step"]) == 0
    assert legends == [["plain", "fast", "training", "validation", "code", "ko"]]


@pytest.mark.parametrize(("ymax", "bottom"), [(6.0, 2.85), (5.5, 2.875), (2.0, -0.1)])
def test_ymax_sets_the_lower_limit_from_the_visible_losses(runs, monkeypatch, ymax, bottom):
    from matplotlib.figure import Figure

    limits = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: limits.append(figure.axes[0]))
    assert plot(["plain", "fast", "--ymax", str(ymax)]) == 0
    assert limits[0].get_ylim() == pytest.approx((bottom, ymax))  # the lowest loss is 3.0


def test_tokens_are_shown_in_millions(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    labels = []

    def note(figure, *_, **__):
        figure.draw_without_rendering()
        labels.extend(tick.get_text() for tick in figure.axes[0].get_xticklabels())

    monkeypatch.setattr(Figure, "savefig", note)
    rows = [{"step": step, "tokens": step * 10**6, "train_loss": 5.0} for step in (0, 10, 20)]
    plot_group(tmp_path / "curves.png", "Curves", {"run": rows})
    assert {"0", "5M", "10M"} <= set(labels)


@pytest.mark.parametrize(
    ("metrics", "named"),
    [(None, "other"), ("", "other"), ('{"step": 11}\n', "the row of step 11 has no tokens")],
)
def test_a_run_without_metrics_or_tokens_is_rejected(runs, capsys, metrics, named):
    (runs / "other").mkdir()
    if metrics is not None:
        (runs / "other" / "metrics.jsonl").write_text(metrics)
    assert plot(["plain", "other"]) == 2
    assert named in error_of(capsys, "plot")
    assert not (runs / "runs.png").exists()


def test_a_value_too_large_for_an_axis_is_left_out(runs):
    metrics = RunDirectory(runs / "plain").metrics
    row = json.loads(metrics.read_text().splitlines()[-1])
    changes = [{"val_loss": 1.7e308}, {"val_loss": -1.7e308}, {"tokens": 1.7e308}]
    rows = [json.dumps({**row, **changed}) for changed in changes]
    metrics.write_text(metrics.read_text() + "\n".join(rows) + "\n")
    assert plot(["plain"]) == 0


def test_every_run_with_a_step_has_a_curve(tmp_path, legends):
    training = {"step": 1, "tokens": 64, "train_loss": 5.0}
    validation = {"step": 1, "tokens": 64, "val_loss": 5.0}
    curves = {"whole": [training, validation], "diverged": [training], "missing": []}
    plot_group(tmp_path / "curves.png", "Curves", curves)
    assert legends == [["whole", "diverged", "training", "validation"]]


def test_the_losses_of_a_group_are_shown_around_the_best_final_loss(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    limits = []
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *_, **__: limits.append(figure.axes[0].get_ylim())
    )
    losses = {"a": [9.0, 2.5], "b": [1.0, 3.0]}
    curves = {
        name: [{"step": i, "tokens": 64 * i, "val_loss": loss} for i, loss in enumerate(values)]
        for name, values in losses.items()
    }
    plot_group(tmp_path / "curves.png", "Curves", curves)
    assert limits == [pytest.approx((2.3, 5.5))]


def test_a_backend_of_matplotlib_that_is_missing_is_an_error_of_the_command_alone(runs):
    code = """
import sys
from pathlib import Path
from cs336_basics.__main__ import main
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.training.learning_curves import plot_run
for _ in range(2):
    plot_run(RunDirectory(Path("plain")))
sys.exit(main(["plot", "plain"]))
"""
    done = run_python(code, cwd=runs, check=False, MPLBACKEND="missing")
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("plain/loss.png was not drawn: MPLBACKEND is 'missing") == 1
    assert done.stderr.splitlines()[-1].startswith("cs336 plot: error: MPLBACKEND")
