"""`python -m cs336_basics.train --resume`: damage, other options, divergence."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from cs336_basics.checkpoints.run_dir import RunDirectory
from tests.commands.small_run import TINY, assert_equal_runs, command

main = command("train")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole")
    (path / "tiny.yaml").write_text(TINY)
    assert main(["--config", str(path / "tiny.yaml"), "--run-dir", str(path / "run")]) == 0
    return path / "run"


class TestResume:
    def test_only_damaged_stages_are_rebuilt(self, tiny, whole, capsys):
        shutil.copytree(whole, "run")
        run = RunDirectory("run")
        tokens = run.data / "train.npy"
        content, ids = tokens.read_bytes(), np.load(tokens).tolist()
        tokens.write_bytes(content[:-2] + b"\0\1")
        shutil.rmtree(run.tokenizer)
        text_time = (run.data / "sample_train.txt").stat().st_mtime_ns
        capsys.readouterr()
        assert main(["--resume", "run"]) == 0
        out = capsys.readouterr().out
        assert "train text: unchanged" in out
        assert "tokenizer: done" in out
        assert "valid tokens: unchanged" in out
        assert np.load(tokens).tolist() == ids
        assert (run.data / "sample_train.txt").stat().st_mtime_ns == text_time
        assert_equal_runs("run", whole)

    def test_a_run_with_more_steps_continues(self, tiny, whole, capsys):
        shutil.copytree(whole, "run")
        assert main(["--resume", "run", "--max-steps", "14"]) == 0
        assert RunDirectory("run").read_metrics()[-1]["step"] == 14
        assert yaml.safe_load(Path("run/config.yaml").read_text())["max_steps"] == 14

    def test_the_text_of_a_run_may_move(self, tiny, tmp_path, capsys):
        text = tmp_path / "text.txt"
        text.write_text("The cat sat on the mat.<|endoftext|>" * 300)
        words = ["--config", "tiny.yaml", "--data.train-path", str(text), "--run-dir", "run"]
        assert main([*words, "--max-steps", "2"]) == 0
        moved = text.rename(tmp_path / "moved.txt")
        assert main(["--resume", "run", "--max-steps", "3"]) == 2
        assert "data.train_path is " in capsys.readouterr().err
        words = ["--resume", "run", "--max-steps", "3", "--data.train-path", str(moved)]
        assert main(words) == 0
        assert yaml.safe_load(Path("run/config.yaml").read_text())["data"]["train_path"] == str(
            moved
        )

    def test_a_damaged_checkpoint_is_named_and_another_used_on_request(self, tiny, whole, capsys):
        shutil.copytree(whole, "run")
        state = RunDirectory("run").checkpoint(12)
        state.write_bytes(state.read_bytes()[:50])
        assert main(["--resume", "run"]) == 2
        error = capsys.readouterr().err
        other = re.search(r"--resume-from (\S+)", error)[1]
        assert "step_00000012" in error
        assert "Traceback" not in error
        shutil.copytree("run", "run2")
        assert main(["--resume", "run", "--resume-from", other]) == 0
        assert main(["--resume", "run2", "--skip-damaged"]) == 0
        for run in ("run", "run2"):
            Path(f"{run}/checkpoints/step_00000012.safetensors.unused").unlink()
            assert_equal_runs(run, whole)

    def test_divergence_ends_with_1_and_names_the_step(self, tiny, capsys):
        # Steps that large overflow within a few of them.
        words = ["--schedule.max-learning-rate", "1e30", "--optimizer.weight-decay", "0"]
        assert main(["--config", tiny, "--run-dir", "run", *words]) == 1
        error = capsys.readouterr().err
        assert re.search(r"error: step \d+: the loss is", error)


@pytest.mark.parametrize(
    ("file", "damage", "named"),
    [
        ("metrics.jsonl", lambda text: text.replace('"step"', '"stp"', 1), "line 1 has no step"),
        ("timings.jsonl", lambda text: "[]\n" + text, "line 1 has no step"),
        ("metrics.jsonl", lambda text: text.replace("{", "", 1), "line 1 is not JSON"),
        ("data/stages.json", lambda text: text[:-4], "stages.json is damaged: remove it"),
        ("data/stages.json", lambda text: "3", "stages.json is damaged: remove it"),
    ],
)
def test_a_damaged_file_of_the_run_is_named(tiny, capsys, file, damage, named):
    assert main(["--config", tiny, "--run-dir", "run", "--max-steps", "2"]) == 0
    path = Path("run") / file
    path.write_text(damage(path.read_text()))
    assert main(["--resume", "run", "--max-steps", "3"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert named in error
