"""Training runs that are killed, interrupted by signals or damaged, and then resumed.

Runs that are killed are separate processes. The other runs use the test process, because importing
torch in a new process takes seconds.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.data.datasets import write_sample
from tests.commands.small_run import TINY, assert_equal_runs, command, start
from tests.processes import wait

main = command("train")


def wait_for_rows(process, run, count):
    """Wait until the run has started and written `count` rows, or has ended."""
    config, metrics = Path(run) / "config.yaml", Path(run) / "metrics.jsonl"

    def reached():
        if count == 0:
            return config.exists()
        return metrics.exists() and metrics.read_bytes().count(b"\n") >= count

    wait(lambda: process.poll() is not None or reached(), every=0.002)


def wait_for_a_save(process, run):
    """Wait until the run is writing a checkpoint. Return False if it ends first."""
    checkpoints = Path(run, "checkpoints")
    wait(lambda: process.poll() is not None or any(checkpoints.glob(".step_*.tmp")), every=0.0005)
    return process.poll() is None


def kill(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


KILL_STEPS = 60
KILL_CONFIG = TINY.replace("max_steps: 12", f"max_steps: {KILL_STEPS}").replace(
    "eval_every: 6", "eval_every: 30"
)


@pytest.fixture(scope="module")
def never_stopped(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole")
    (path / "config.yaml").write_text(KILL_CONFIG)
    run_to_the_end("--config", str(path / "config.yaml"), "--run-dir", str(path / "run"))
    return path / "run"


def run_to_the_end(*words):
    threads = torch.get_num_threads()
    assert main(list(words)) == 0
    torch.set_num_threads(threads)  # the command changed this setting


def run_with_kills(path, seed, kills):
    """Start a run, kill and resume it at random moments, and finally let it finish.

    The first kill occurs during data preparation and the others during training. Every second kill
    occurs while a checkpoint is being written.
    """
    moments = random.Random(seed)
    (path / "config.yaml").write_text(KILL_CONFIG)
    run = path / "run"
    # Number of rows in a run's metrics: the first step, logged steps and evaluations.
    rows = 1 + KILL_STEPS // 2 + KILL_STEPS // 30
    words = ["--config", path / "config.yaml", "--run-dir", run]
    for number, at in enumerate([0, *sorted(moments.randrange(1, rows) for _ in range(kills - 1))]):
        process = start("train", *words, start_new_session=True)
        wait_for_rows(process, run, at)
        if number % 2 == 1 and wait_for_a_save(process, run):
            time.sleep(moments.random() * 0.01)  # writing a checkpoint takes about 0.01 s
        else:
            time.sleep(moments.random() * (0.5 if at == 0 else 0.02))
        kill(process)
        words = ["--resume", str(run)]
    run_to_the_end(*words)
    return run


# tests/training/test_start.py crashes and resumes runs in this process.
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 125))
def test_many_kills_do_not_change_the_run(tmp_path, never_stopped, seed):
    run = run_with_kills(tmp_path, seed, kills=4)
    assert_equal_runs(run, never_stopped)
    assert not list(run.rglob(".*.tmp"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 206))
def test_kills_while_a_mixture_is_prepared_do_not_change_the_run(tmp_path, monkeypatch, seed):
    monkeypatch.chdir(tmp_path)
    moments = random.Random(seed)
    Path("config.yaml").write_text(TINY)
    for number, name in enumerate(("a.txt", "b.txt", "c.txt")):
        write_sample(name, 400_000, seed=number)
    first = ["--config", "config.yaml", "--data.mix", "a.txt:5", "b.txt:2", "c.txt:1"]
    run_to_the_end(*first, "--run-dir", "whole")
    words = [*first, "--run-dir", "run"]
    for _ in range(4):
        process = start("train", *words, start_new_session=True)
        wait_for_rows(process, "run", 0)
        time.sleep(moments.random() * 0.5)
        kill(process)
        words = ["--resume", "run"]
    run_to_the_end(*words)
    assert_equal_runs(Path("run"), Path("whole"))


@pytest.mark.parametrize(
    "signals",
    [
        # tests/training/test_session.py tests SIGTERM in this process.
        [(signal.SIGINT, 130, 10)],
        pytest.param([(signal.SIGINT, 130, 5), (signal.SIGTERM, 143, 15)], marks=pytest.mark.slow),
    ],
    ids=len,
)
def test_a_signal_saves_a_checkpoint_and_prints_the_command_to_resume(
    tmp_path, never_stopped, signals
):
    (tmp_path / "config.yaml").write_text(KILL_CONFIG)
    run = tmp_path / "run"
    words = ["--config", tmp_path / "config.yaml", "--run-dir", run]
    for number, status, rows in signals:
        process = start("train", *words)
        wait_for_rows(process, run, rows)
        process.send_signal(number)
        _, error = process.communicate(timeout=120)
        assert process.returncode == status, error
        assert f"--resume {run}" in error
        assert "Traceback" not in error
        assert f"after step {RunDirectory(run).steps_saved()[-1]}" in error
        words = ["--resume", str(run)]
    run_to_the_end(*words)
    assert_equal_runs(run, never_stopped)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole")
    (path / "tiny.yaml").write_text(TINY)
    assert main(["--config", str(path / "tiny.yaml"), "--run-dir", str(path / "run")]) == 0
    return path / "run"


class TestResume:
    def test_only_damaged_stages_run_again(self, tiny, whole, capsys):
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
        assert "text: unchanged" in out
        assert "tokenizer: done" in out
        assert "valid tokens: unchanged" in out
        assert np.load(tokens).tolist() == ids
        assert (run.data / "sample_train.txt").stat().st_mtime_ns == text_time
        assert_equal_runs("run", whole)

    @pytest.mark.parametrize("how", ["continue", "extend"])
    def test_more_steps_keep_the_schedule_unless_it_is_extended(self, tiny, whole, capsys, how):
        shutil.copytree(whole, "run")
        words = ["--resume", "run", "--resume-from", "run/checkpoints/step_00000006.safetensors"]
        assert main([*words, "--max-steps", "14", "--schedule", how]) == 0
        assert re.search(r"learning-rate schedule .* step 12\b", capsys.readouterr().out)
        rows = [
            {row["step"]: row for row in RunDirectory(run).read_metrics() if "lr" in row}
            for run in ("run", whole)
        ]
        assert max(rows[0]) == 14
        config = yaml.safe_load(Path("run/config.yaml").read_text())
        lowest = config["schedule"]["min_learning_rate"]
        if how == "continue":  # identical to the shorter run up to its last step
            keys = ("train_loss", "lr", "grad_norm")
            for step in (8, 10, 12):
                assert [rows[0][step][k] for k in keys] == [rows[1][step][k] for k in keys]
            assert rows[0][14]["lr"] == lowest
        else:
            assert rows[0][12]["lr"] > rows[1][12]["lr"] == rows[0][14]["lr"] == lowest
        assert config["max_steps"] == 14
        assert config["schedule"]["cycle_steps"] == {"continue": 12, "extend": None}[how]

    def test_a_damaged_checkpoint_can_be_replaced_by_another(self, tiny, whole, capsys):
        shutil.copytree(whole, "run")
        state = RunDirectory("run").checkpoint(12)
        state.write_bytes(state.read_bytes()[:50])
        assert main(["--resume", "run"]) == 2
        error = capsys.readouterr().err
        other = re.search(r"--resume-from ([^\s;]+)", error)[1]
        assert "step_00000012" in error
        assert "Traceback" not in error
        assert RunDirectory("run").steps_saved() == [6, 8, 12]
        shutil.copytree("run", "run2")
        capsys.readouterr()
        assert main(["--resume", "run", "--resume-from", other]) == 0
        assert "skipped: " not in capsys.readouterr().out
        assert main(["--resume", "run2", "--skip-damaged"]) == 0
        out = capsys.readouterr().out
        assert re.search(r"skipped: \S*step_00000012", out)
        assert "resuming after step 8\n" in out
        for run in ("run", "run2"):
            Path(f"{run}/checkpoints/step_00000012.safetensors.unused").unlink()
            assert_equal_runs(run, whole)


@pytest.fixture
def small_disk(tmp_path):
    """Return a function that mounts a file system with the given options on `disk`."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def mount(options):
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], check=False)
        if done.returncode:
            pytest.skip("only the superuser can mount file systems")

    if not shutil.which("mount") or not hasattr(os, "geteuid") or os.geteuid():
        pytest.skip("only the superuser can mount file systems")
    yield mount
    subprocess.run(["umount", "--lazy", disk], check=False, capture_output=True)


@pytest.mark.parametrize(
    ("options", "file", "space"),
    [
        ("size=16k", r"data/sample_train\.txt", r"\d.* bytes"),
        ("size=220k", r"checkpoints/step_00000004\.safetensors", r"\d.* bytes"),
        ("size=400k", r"checkpoints/step_\d+\.safetensors", r"\d.* bytes"),
        # No inodes left
        ("size=8m,nr_inodes=5", r"data/sample_train\.txt", ""),
        ("size=8m,nr_inodes=17", r"checkpoints/step_00000004\.safetensors", ""),
    ],
)
def test_the_error_for_a_full_disk_has_the_file_and_the_space_that_it_needs(
    tiny, whole, small_disk, capfd, options, file, space
):
    small_disk(options)
    assert main(["--config", tiny, "--run-dir", "disk/run"]) == 1
    error = capfd.readouterr().err
    assert re.search(rf"error: \S*disk/run/{file}: No space left on device.*{space}", error)
    assert error.count("\n") == 1
    assert ".tmp" not in error
    assert "[Errno" not in error
    small_disk("remount,size=8m,nr_inodes=100")
    if "--resume disk/run" in error:
        assert main(["--resume", "disk/run"]) == 0
    else:
        assert main(["--config", tiny, "--run-dir", "disk/run"]) == 0
    assert_equal_runs("disk/run", whole)


@pytest.mark.parametrize(
    ("file", "old"),
    [("metrics.jsonl", '"step"'), ("timings.jsonl", "{"), ("data/stages.json", "{")],
)
def test_the_error_for_a_damaged_file_of_a_run_names_it(tiny, capsys, file, old):
    assert main(["--config", tiny, "--run-dir", "run", "--max-steps", "2"]) == 0
    path = Path("run") / file
    path.write_text(path.read_text().replace(old, "?", 1))
    assert main(["--resume", "run", "--max-steps", "3"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert path.name in error
