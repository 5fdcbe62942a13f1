"""One run of the experiments: its errors, and how it ends when it diverges."""

from __future__ import annotations

import json
import re

import pytest

from cs336_basics.experiments.plan import SCALES
from cs336_basics.experiments.runner import run_one
from cs336_basics.pretokenization import MissingFieldError
from cs336_basics.training.config_files import find_config, load_config


@pytest.mark.parametrize(
    "error",
    [
        ValueError("why"),
        MissingFieldError("why.jsonl", "field"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "why"),
    ],
)
def test_every_error_of_a_run_names_its_directory(tmp_path, monkeypatch, error):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr("cs336_basics.experiments.runner.open_trainer", refuse)
    config = load_config(find_config(SCALES["test"].config), SCALES["test"].values)
    with pytest.raises(ValueError, match=f"{re.escape(str(tmp_path / 'run'))}: .*why") as raised:
        run_one(tmp_path / "run", config)
    assert raised.value.__cause__ is error


def test_a_run_that_diverges_in_an_evaluation_has_diverged(tmp_path):
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
        assert "the validation loss is nan" in message
        (run / "diverged.json").unlink()  # as if the command were killed before it is written
