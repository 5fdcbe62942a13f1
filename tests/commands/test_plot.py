"""`python -m cs336_basics plot`: the figure and the table."""

from __future__ import annotations

import io
import sys

import pytest

from tests.commands.small_run import command
from tests.training.small_runs import write_two_runs

plot = command("plot")


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_two_runs(tmp_path)
    return tmp_path


@pytest.mark.parametrize("x", [[], ["--x", "step"], ["--x", "tokens"], ["--x", "seconds"]])
def test_runs_are_drawn_in_one_figure(runs, capsys, x):
    assert plot(["plain", "fast", "--output", "both.png", "--ymax", "6", *x]) == 0
    assert (runs / "both.png").read_bytes().startswith(b"\x89PNG")
    out = capsys.readouterr().out
    assert "4.5000" in out  # the best loss of `plain`
    assert "3.5000" in out
    assert "both.png" in out


def test_figures_that_a_run_does_not_have_are_left_empty(runs, capsys):
    metrics = runs / "plain" / "metrics.jsonl"
    metrics.write_text(metrics.read_text().splitlines(keepends=True)[0])
    (runs / "plain" / "timings.jsonl").unlink()
    assert plot(["plain", "fast", "--x", "step"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[1].split() == ["plain", "1", "64"]
    assert "nan" not in out


def test_an_ascii_terminal_shows_question_marks(runs, monkeypatch):
    (runs / "plain").rename(runs / "größe")
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", output)
    assert plot(["größe"]) == 0
    assert b"\ngr??e " in output.buffer.getvalue()


@pytest.mark.parametrize("name", ["notes", "notes.txt"])
def test_only_an_image_file_is_replaced(runs, capsys, name):
    (runs / name).write_text("mine")
    assert plot(["plain", "--output", name]) == 2
    assert f"got '{name}'" in capsys.readouterr().err
    assert (runs / name).read_text() == "mine"
    assert plot(["plain", "--x", "step", "--output", "curves.SVG"]) == 0


def test_an_existing_figure_is_replaced_only_on_request(runs, capsys):
    (runs / "runs.png").write_bytes(b"mine")
    assert plot(["plain", "--x", "step"]) == 2
    assert "runs.png exists; " in (error := capsys.readouterr().err)
    assert "--overwrite" in error
    assert (runs / "runs.png").read_bytes() == b"mine"
    assert plot(["plain", "--x", "step", "--overwrite"]) == 0
    assert (runs / "runs.png").read_bytes().startswith(b"\x89PNG")
