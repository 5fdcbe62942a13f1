"""`python -m cs336_basics estimate`: what a run takes, computed and measured."""

from __future__ import annotations

import pytest

from cs336_basics.commands import estimate


def test_estimate_prints_what_a_run_takes(capsys):
    words = [
        "--config",
        "sample",
        "--device",
        "cpu",
        "--batch-size",
        "2",
        "--model.num-layers",
        "1",
    ]
    assert estimate.main(words) == 0
    out = capsys.readouterr().out
    rows = dict(line.split(None, 1) for line in out.splitlines() if line.split(None, 1)[1:])
    config = {"vocab": 2000, "d": 128, "ff": 384}
    matrices = 4 * config["d"] ** 2 + 3 * config["d"] * config["ff"]
    parameters = 2 * config["vocab"] * config["d"] + matrices + 3 * config["d"]
    assert rows["parameters"] == f"{parameters:,}"
    flops = 6 * (matrices + config["vocab"] * config["d"]) + 12 * config["d"] * 256
    assert f"FLOPs per token         {flops:,}" in out
    assert f"gradients               {4 * parameters / 1e6:,.0f} MB" in out
    assert "tensors at the peak" in out
    assert "(measured)" in rows["peak"]
    assert "about" in rows["time"]


def test_estimate_of_the_fast_path_says_what_it_chose(capsys):
    assert (
        estimate.main(
            ["--config", "tinystories", "--device", "cpu", "--fast", "auto", "--no-measure"]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert "fast: precision" in out
    assert "22,696,448" in out


@pytest.mark.parametrize("words", [["--max-stpes", "3"], ["--device", "cuda:77"]])
def test_estimate_names_what_cannot_be_used(capsys, words):
    assert estimate.main(words) == 2
    assert capsys.readouterr().err.startswith("cs336 estimate: error: ")


def test_estimate_ends_at_ctrl_c(capsys, monkeypatch):
    def interrupted(_config):
        raise KeyboardInterrupt

    monkeypatch.setattr(estimate, "measure_steps", interrupted)
    assert estimate.main(["--device", "cpu"]) == 130
    out, error = capsys.readouterr()
    assert "FLOPs of the run" in out
    assert error == "cs336 estimate: interrupted: the steps were not measured\n"
