from __future__ import annotations

import pytest

from cs336_basics.runs.run_dir import RunDirectory


def test_a_last_line_that_is_not_text_is_omitted_and_an_earlier_one_is_an_error(tmp_path):
    run = RunDirectory(tmp_path)
    run.metrics.write_bytes(b'{"step": 1, "train_loss": 3.0}\n{"step": \xff\x80')
    assert run.read_metrics() == [{"step": 1, "train_loss": 3.0}]
    run.timings.write_bytes(b'\xff\x80\n{"step": 1, "kind": "checkpoint", "seconds": 3.0}\n')
    with pytest.raises(ValueError, match=r"timings\.jsonl, line 1 is not JSON: remove it"):
        run.seconds()


def start(path):
    """Make the files that a run has when its preparation fails."""
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


def test_discard_keeps_an_empty_directory_that_existed_before(tmp_path):
    run = start(tmp_path)
    run.discard()
    run.unlock()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("trained", ["metrics.jsonl", "checkpoints/step_00000005/state.json"])
def test_discard_keeps_a_run_that_has_trained(tmp_path, trained):
    run = start(tmp_path)
    file = tmp_path / trained
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{}")
    before = sorted(tmp_path.rglob("*"))
    run.discard()
    run.unlock()
    assert sorted(tmp_path.rglob("*")) == before


def test_discard_keeps_a_run_that_was_made_before(tmp_path):
    start(tmp_path).unlock()
    before = sorted(tmp_path.rglob("*"))
    RunDirectory(tmp_path).discard()
    assert sorted(tmp_path.rglob("*")) == before
