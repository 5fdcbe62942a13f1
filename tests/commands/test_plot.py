"""`python -m cs336_basics plot`: the picture and the table."""

from __future__ import annotations

import io
import os
import sys

import pytest

from cs336_basics._support.files import printable_path
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.training.learning_curves import plot_run
from tests.commands.small_run import command

plot = command("plot")


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, slope in (("plain", 0.1), ("fast", 0.2)):
        run = RunDirectory(tmp_path / name)
        run.create()
        for step in range(1, 11):
            row = {"step": step, "tokens": 64 * step, "train_loss": 5 - slope * step}
            run.append_metrics(row, {"seconds": step / slope})
            if step % 5 == 0:
                row = {"step": step, "tokens": 64 * step, "val_loss": 5.5 - slope * step}
                run.append_metrics(row, {"seconds": step / slope})
    return tmp_path


@pytest.mark.parametrize("x", [[], ["--x", "step"], ["--x", "tokens"], ["--x", "seconds"]])
def test_runs_are_drawn_in_one_plot(runs, capsys, x):
    assert plot(["plain", "fast", "--output", "both.png", "--ymax", "6", *x]) == 0
    assert (runs / "both.png").read_bytes().startswith(b"\x89PNG")
    out = capsys.readouterr().out
    assert "4.5000" in out  # best of plain
    assert "3.5000" in out
    assert "both.png" in out


def test_each_panel_has_the_curves_by_its_own_axis(runs, monkeypatch):
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
    """The texts in the legend of each picture that is drawn."""
    from matplotlib.figure import Figure

    found = []
    real = Figure.savefig

    def note(figure, *arguments, **options):
        real(figure, *arguments, **options)
        found.append([text.get_text() for text in figure.axes[0].get_legend().get_texts()])

    monkeypatch.setattr(Figure, "savefig", note)
    return found


# A malformed formula, a label that hides its line from the legend, a byte that is not UTF-8.
STRANGE_NAMES = ("run_${RATE}_${SEED}", "_draft", os.fsdecode(b"caf\xe9"))


@pytest.mark.parametrize("name", STRANGE_NAMES)
def test_a_run_may_have_any_name(runs, capsys, legends, name):
    (runs / "plain").rename(runs / name)
    plot_run(RunDirectory(name))
    assert plot([name, "fast"]) == 0
    assert legends[0][0] == legends[1][0]
    shown = legends[1][0].strip().replace(r"\$", "$")
    assert shown == printable_path(name)
    assert legends[1][1] == "fast"


def test_runs_of_one_name_are_told_apart_by_their_paths(runs, capsys, legends, monkeypatch):
    (runs / "new").mkdir()
    (runs / "fast").rename(runs / "new" / "plain")
    assert plot(["plain", "new/plain"]) == 0
    assert legends == [["plain", "new/plain"]]
    assert "new/plain" in capsys.readouterr().out
    monkeypatch.chdir("plain")
    assert plot(["."]) == 0
    assert legends[1] == ["plain"]


def test_a_run_that_was_not_evaluated_yet_has_its_name_in_the_legend(runs, legends):
    metrics = runs / "plain" / "metrics.jsonl"
    metrics.write_text(metrics.read_text().splitlines(keepends=True)[0])
    assert plot(["plain", "fast"]) == 0
    assert legends == [["plain", "fast"]]


def test_an_ascii_terminal_shows_the_table(runs, monkeypatch):
    (runs / "plain").rename(runs / "größe")
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", output)
    assert plot(["größe"]) == 0
    assert b"\ngr??e " in output.buffer.getvalue()


@pytest.mark.parametrize(("ymax", "bottom"), [(6.0, 2.85), (5.5, 2.875), (2.0, None)])
def test_ymax_leaves_a_margin_above_the_curves(runs, monkeypatch, ymax, bottom):
    from matplotlib.figure import Figure

    limits = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: limits.append(figure.axes[0]))
    assert plot(["plain", "fast", "--ymax", str(ymax)]) == 0
    assert limits[0].get_ylim()[1] == ymax
    if bottom is not None:  # the lowest loss is 3.0
        assert limits[0].get_ylim()[0] == pytest.approx(bottom)


@pytest.mark.parametrize("name", ["notes", "notes.txt"])
def test_only_a_name_of_a_picture_is_written(runs, capsys, name):
    (runs / name).write_text("mine")
    assert plot(["plain", "--output", name]) == 2
    assert f"--output is '{name}': its name must end in .png, .svg or .pdf" in (
        capsys.readouterr().err
    )
    assert (runs / name).read_text() == "mine"
    assert plot(["plain", "--output", "curves.SVG"]) == 0


@pytest.mark.parametrize("make", ["nothing", "directory", "empty"])
def test_runs_without_metrics_are_named(runs, capsys, make):
    if make != "nothing":
        (runs / "other").mkdir()
    if make == "empty":
        (runs / "other" / "metrics.jsonl").write_text("")
    assert plot(["plain", "other"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("cs336 plot: error: ")
    assert "other" in error
    assert not (runs / "runs.png").exists()


def test_a_row_without_tokens_is_named(runs, capsys):
    metrics = RunDirectory(runs / "plain").metrics
    metrics.write_text(metrics.read_text() + '{"step": 11}\n')
    assert plot(["plain"]) == 2
    assert "a row of step 11 has no tokens: remove it" in capsys.readouterr().err
