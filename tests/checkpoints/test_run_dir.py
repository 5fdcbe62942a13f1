"""The run directory: its lock, checkpoints, metrics and temporary files."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from cs336_basics._support.errors import MissingFileError
from cs336_basics.checkpoints.run_dir import RunDirectory, thinned
from tests.errors import rejects

posix_only = pytest.mark.skipif(os.name != "posix", reason="Windows has no such locks")


def test_an_invalid_line_is_omitted_at_the_end_and_refused_elsewhere(tmp_path):
    run = RunDirectory(tmp_path)
    run.metrics.write_bytes(b'{"step": 1, "train_loss": 3.0}\n{"step": \xff\x80')
    assert run.read_metrics() == [{"step": 1, "train_loss": 3.0}]
    run.timings.write_bytes(b'\xff\x80\n{"step": 1, "kind": "checkpoint", "seconds": 3.0}\n')
    with rejects(None, "line 1", place="timings.jsonl"):
        run.seconds()


def test_the_temporary_files_of_a_killed_process_are_removed(tmp_path):
    run = RunDirectory(tmp_path)
    run.checkpoints.mkdir()
    left = [
        tmp_path / ".config.yaml.1-0123abcd.tmp",
        run.checkpoints / ".step_00000005.safetensors.1-0123abcd.tmp",
        run.checkpoints / ".tmpUVV6PG",  # safetensors uses such temporary names
    ]
    for file in [*left, run.checkpoint(5)]:
        file.touch()
    (run.checkpoints / ".tmpabc123").mkdir()
    run.remove_temporary_files()
    assert (run.checkpoints / ".tmpabc123").is_dir()
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [run.checkpoint(5)]


def test_a_name_that_is_not_utf8_is_refused_because_safetensors_cannot_open_its_files(tmp_path):
    run = RunDirectory(tmp_path / "a\udcff" / "run")
    with rejects("run_dir", r"must be valid UTF-8", r"a\udcff"):
        run.create()
    assert not os.listdir(tmp_path)


@posix_only
@pytest.mark.slow
def test_the_temporary_file_of_a_killed_safetensors_is_removed(tmp_path):
    run = RunDirectory(tmp_path)
    run.checkpoints.mkdir()
    code = """
import sys, torch
from cs336_basics.checkpoints.checkpoint import write_checkpoint
model = torch.nn.Linear(20_000, 5_000)
write_checkpoint(sys.argv[1], model, torch.optim.SGD(model.parameters()), 5)
"""
    words = [sys.executable, "-c", code, str(run.checkpoint(5))]
    with subprocess.Popen(words) as process:
        while process.poll() is None and not list(run.checkpoints.glob(".tmp*")):
            time.sleep(0.001)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert list(run.checkpoints.glob(".tmp*"))
    run.remove_temporary_files()
    assert list(run.checkpoints.iterdir()) == []


def start(path):
    """Create the files that a run leaves behind if its preparation fails."""
    run = RunDirectory(path)
    run.create()
    run.lock()
    run.config.write_text("seed: 0\n")
    run.data.mkdir()
    (run.data / "train.txt").write_text("text")
    return run


def test_discard_removes_the_files_of_a_failed_start(tmp_path):
    run = start(tmp_path / "run")
    run.discard()
    run.unlock()
    assert not run.path.exists()
    start(tmp_path / "run").unlock()


@pytest.mark.parametrize("trained", ["metrics.jsonl", "checkpoints/step_00000005.safetensors"])
def test_discard_keeps_a_run_that_has_trained(tmp_path, trained):
    run = start(tmp_path)
    file = tmp_path / trained
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{}")
    before = sorted(tmp_path.rglob("*"))
    run.discard()
    run.unlock()
    assert sorted(tmp_path.rglob("*")) == before


def test_discard_keeps_a_run_that_another_process_made(tmp_path):
    start(tmp_path).unlock()
    before = sorted(tmp_path.rglob("*"))
    RunDirectory(tmp_path).discard()
    assert sorted(tmp_path.rglob("*")) == before


@posix_only
def test_a_run_is_locked_before_anything_is_written(tmp_path):
    other = RunDirectory(tmp_path / "run")
    other.lock()
    before = sorted(other.path.rglob("*"))
    with rejects(None, other.path):
        RunDirectory(tmp_path / "run").create()
    assert sorted(other.path.rglob("*")) == before
    other.unlock()
    run = RunDirectory(tmp_path / "run")
    run.create()
    with rejects(None, other.path):
        other.lock()
    run.lock()  # this process already has the lock
    run.unlock()
    other.lock()
    other.unlock()


def test_the_lock_file_of_a_killed_process_does_not_block_a_new_run(tmp_path):
    (tmp_path / ".lock").write_text("")
    (tmp_path / ".config.yaml.12345678.tmp").write_text("half")
    run = RunDirectory(tmp_path)
    run.create()
    run.unlock()


@posix_only
def test_a_lock_that_is_a_link_is_refused(tmp_path):
    run = RunDirectory(tmp_path)
    (tmp_path / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"\.lock"):
        run.lock()
    assert not (tmp_path / "elsewhere").exists()


@posix_only
def test_only_one_of_many_new_runs_gets_the_directory(tmp_path):
    made, refused = [], []

    def make():
        run = RunDirectory(tmp_path / "run")
        try:
            run.create()
        except (ValueError, FileExistsError) as error:
            refused.append(error)
            return
        (run.path / "config.yaml").write_text("mine")
        made.append(run)

    threads = [threading.Thread(target=make) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), len(refused)) == (1, 15)
    made[0].unlock()


@pytest.mark.parametrize(
    "line",
    [
        b"[]", b"{}", b'{"step": -1}', b'{"step": true}', b"[" * 60_000,
        b'{"step": 1%s}' % (b"0" * 20), b'{"step": 1, "kind": "training", "seconds": "x"}',
        b'{"step": 1, "kind": "training", "seconds": [%s]}' % (b"1," * 50_000 + b"1"),
        b'{"step": 1, "seconds": 1.0}', b'{"step": 1, "kind": 7, "seconds": 1.0}',
    ],
)  # fmt: skip
def test_an_invalid_line_of_the_timings_is_refused_in_one_line(tmp_path, line):
    run = RunDirectory(tmp_path)
    run.timings.write_bytes(line + b"\n" + b'{"step": 2, "kind": "training", "seconds": 1.0}\n')
    for read in (run.seconds, run.read_metrics, lambda: run.truncate_metrics(5)):
        with rejects(None, "line 1", place="timings.jsonl") as caught:
            read()
        assert len(str(caught.value)) < 400 + len(str(tmp_path))


@pytest.mark.parametrize(
    "line", ['{"step": 1, "val_loss": "low"}', '{"step": 1, "x": %s}' % ("9" * 400)]
)
def test_a_loss_that_is_not_a_number_is_refused(tmp_path, line):
    run = RunDirectory(tmp_path)
    run.metrics.write_text(line + '\n{"step": 2, "val_loss": 1.0}\n')
    with rejects(None, "line 1", place="metrics.jsonl"):
        run.read_metrics()


@posix_only
def test_a_link_in_place_of_a_checkpoint_is_removed_but_not_its_target(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("")
    run = RunDirectory(tmp_path / "run")
    run.checkpoints.mkdir(parents=True)
    for step in (1, 2, 3):
        run.checkpoint(step).symlink_to(tmp_path / "elsewhere")
    run.keep_checkpoints(1, lambda step: True, best=0)
    assert [path.name for path in run.checkpoints.iterdir()] == [run.checkpoint(3).name]
    assert (tmp_path / "elsewhere" / "file").exists()


@posix_only
@pytest.mark.parametrize(
    "name",
    ["config.yaml", "metrics.jsonl", "timings.jsonl", "loss.png", "data", "tokenizer", "samples",
     "checkpoints", "data/train.npy", "samples/step_00000008.txt", "checkpoints/step_1"],
)  # fmt: skip
def test_a_run_with_a_link_is_refused_before_anything_is_written(tmp_path, name):
    run, target = RunDirectory(tmp_path / "run"), tmp_path / "target"
    (run.path / name).parent.mkdir(parents=True)
    (run.path / name).symlink_to(target)
    with rejects(None, name):
        run.lock()
    assert not target.exists()
    assert not (run.path / ".lock").exists()


@posix_only
def test_a_run_may_itself_be_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    run = RunDirectory(tmp_path / "run")
    run.lock()
    assert (tmp_path / "disk" / ".lock").exists()
    run.unlock()


@pytest.mark.parametrize("length", [0, 1, 2, 9, 10, 11, 25, 1000])
def test_thinned_items_are_few_and_include_the_last(length):
    items = list(range(length))
    found = thinned(items, 10)
    assert len(found) <= 10
    assert found[:1] == items[:1]
    assert found[-1:] == items[-1:]
    if length <= 10:
        assert found == items


def evaluated(tmp_path, losses):
    """Return a run with a checkpoint and an evaluation at each step of a mapping to losses."""
    run = RunDirectory(tmp_path)
    run.checkpoints.mkdir()
    for step, values in losses.items():
        run.checkpoint(step).touch()
        run.append_metrics({"step": step, **values}, {})
    return run


def test_checkpoints_are_found_by_name_step_and_path(tmp_path, monkeypatch):
    # On the windows of every evaluation, the last one is worse than the one before.
    last = {"val_loss": 1.0, "val_loss_subset": 3.0}
    run = evaluated(tmp_path, {5: {"val_loss": 4.0}, 10: {"val_loss": 2.0}, 15: last})
    run.checkpoint(20).touch()  # not evaluated
    for which, step in (("last", 20), ("best", 10), ("5", 5), (15, 15), ("000010", 10)):
        assert run.find_checkpoint(which) == run.checkpoint(step)
    monkeypatch.setenv("HOME" if os.name != "nt" else "USERPROFILE", str(tmp_path))
    for name in ("mine.safetensors", "best"):
        (tmp_path / name).touch()
    assert run.find_checkpoint("~/mine.safetensors") == tmp_path / "mine.safetensors"
    assert run.find_checkpoint(tmp_path / "best") == tmp_path / "best"
    with rejects("checkpoint", "got step 7", "5, 10, 15, 20"):
        run.find_checkpoint(7)
    run.checkpoint(10).unlink()
    with rejects("checkpoint", "best", "step 10", "5, 15, 20"):
        run.find_checkpoint("best")
    run.metrics.unlink()
    with rejects("checkpoint", "not been evaluated", "last"):
        run.find_checkpoint("best")


def test_a_run_without_checkpoints_has_none_of_any_name(tmp_path):
    for which in ("last", "best", 5):
        with rejects(None, place=tmp_path, kind=MissingFileError):
            RunDirectory(tmp_path).find_checkpoint(which)


def test_the_best_loss_counts_the_evaluations_since(tmp_path):
    losses = {1: 5.0, 2: 4.0, 3: 4.0, 4: 6.0, 5: 3.0}
    run = evaluated(tmp_path, {step: {"val_loss": loss} for step, loss in losses.items()})
    found = [run.best(step) for step in range(6)]
    assert found == [
        (math.inf, 0, 0),
        (5.0, 1, 0),
        (4.0, 2, 0),
        (4.0, 2, 1),
        (4.0, 2, 2),
        (3.0, 5, 0),
    ]
    assert run.best() == found[-1]


def test_a_checkpoint_that_is_neither_a_name_nor_a_file_is_rejected(tmp_path):
    with rejects("checkpoint", "'first'", kind=MissingFileError):
        RunDirectory(tmp_path).find_checkpoint("first")
