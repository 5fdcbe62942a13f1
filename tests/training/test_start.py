"""Starting and resuming runs: a resumed run equals an uninterrupted run."""

from __future__ import annotations

import dataclasses
import errno
import functools
import math
import os
import re
import shutil

import pytest
import torch
from safetensors import safe_open
from torch.testing import assert_close

import cs336_basics.training.start as start_module
from cs336_basics._support.errors import InputError
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.data.data_config import DataConfig
from cs336_basics.data.prepare import check_sources
from cs336_basics.model import ModelConfig
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.config_files import load_config
from cs336_basics.training.optimizers import AdamWSettings, MuonSettings, SGDSettings
from cs336_basics.training.products import has_onednn
from cs336_basics.training.start import (
    Resumption,
    check_start,
    create_run,
    open_trainer,
    resume_run,
)
from tests.errors import rejects
from tests.training.tiny_runs import (
    CONFIG,
    Crash,
    CrashingLogger,
    assert_a_crashed_run_resumes_exactly,
    assert_resumes_exactly,
    changed,
    crash_in_step,
    losses_of,
    make,
    outcome,
    resumed,
    uninterrupted_losses,
    weights_of,
)

MODEL = ModelConfig(
    vocab_size=270, context_length=16, d_model=16, num_layers=1, num_heads=2, d_ff=32
)


def config_for(text, **data):
    data = DataConfig(train_path=str(text), valid_path=str(text), allow_overlap=True, **data)
    return TrainConfig(
        max_steps=1, batch_size=2, device="cpu", num_workers=1, model=MODEL, data=data
    )


def opened(config, run, resume=None):
    sources = check_sources(config.preparation)
    return open_trainer(config, run, sources, resume=resume, report=lambda line: None)


def start(config, path):
    sources = check_sources(config.preparation)
    run = create_run(config, path)
    with open_trainer(config, run, sources, report=lambda line: None) as trainer:
        trainer.fit()


@pytest.fixture
def text(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("The cat sat on the mat.<|endoftext|>" * 30)
    return file


@pytest.mark.parametrize(
    ("cause", "named"),
    [
        ("text", "context_length"),
        ("tokenizer", "tokenizer"),
        ("vocabulary", "model.vocab_size"),
    ],
)
def test_a_failed_start_leaves_no_directory(tmp_path, text, cause, named):
    good = bad = config_for(text)
    if cause == "text":
        short = tmp_path / "short.txt"
        short.write_text("cat")
        bad = config_for(short)
    elif cause == "tokenizer":
        bad = config_for(text, tokenizer=str(tmp_path / "nowhere"))
    else:
        bad = dataclasses.replace(good, model=dataclasses.replace(MODEL, vocab_size=10))
    path = tmp_path / "run"
    with pytest.raises((InputError, OSError), match=named):
        start(bad, path)
    assert not path.exists()
    start(good, path)
    assert (path / "checkpoints" / "step_00000001.safetensors").is_file()


@pytest.mark.parametrize(
    ("values", "argument", "remedy"),
    [
        ({"train_path": "short.txt", "valid_path": "text.txt"}, "train_path", "more text"),
        ({"train_path": "text.txt", "valid_path": "short.txt"}, "valid_path", "more text"),
        ({"train_path": "text.txt", "valid_fraction": 0.02}, "train_path", "data.valid_fraction"),
        ({"mix": ("text.txt:1", "short.txt:1"), "valid_path": "text.txt"}, "mix", "of short"),
    ],
)
def test_too_few_tokens_name_the_key_of_the_text(
    tmp_path, monkeypatch, text, values, argument, remedy
):
    monkeypatch.chdir(tmp_path)
    # It has more bytes than a window of 16, but fewer tokens.
    (tmp_path / "short.txt").write_text("The cat sat on the mat.")
    data = DataConfig(**values, allow_overlap=True)
    config = changed(config_for(text), data=data)
    with rejects(f"data.{argument}", remedy, 16, "model.context_length"):
        start(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_lines_name_options_as_the_caller_writes_them(tmp_path, text):
    config = dataclasses.replace(config_for(text), max_steps=40, batch_size=8)
    run = create_run(config, tmp_path / "run")
    lines = []
    options = {"report": lines.append, "shown": lambda argument: f"<{argument.name}>"}
    for resume, line in (
        (None, "set <stop_after_worse> or <dropout>"),
        (Resumption(), "resume it with a larger <max_steps>"),
    ):
        sources = check_sources(config.preparation)
        with open_trainer(config, run, sources, resume=resume, **options) as trainer:
            trainer.fit()
        assert any(line in shown for shown in lines)
        lines.clear()


def test_a_failed_resume_removes_nothing(tmp_path, text):
    config = config_for(text)
    path = tmp_path / "run"
    start(config, path)
    before = sorted(path.rglob("*"))
    run = RunDirectory(path)
    resume = Resumption(checkpoint=tmp_path / "nowhere")
    with (
        rejects(None, "nowhere"),
        opened(config, run, resume),
    ):
        pass
    assert sorted(path.rglob("*")) == before


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX locks")
def test_a_directory_locked_by_another_run_is_not_changed(tmp_path):
    other = RunDirectory(tmp_path / "run")
    other.lock()
    config = TrainConfig()
    with (
        rejects(None, other.path),
        open_trainer(config, RunDirectory(other.path), check_start(config)),
    ):
        pass
    assert [file.name for file in other.path.iterdir()] == [".lock"]
    other.unlock()


def test_the_saved_configuration_has_absolute_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = DataConfig(train_path=("a.txt", "b/*.txt"), valid_path="c.txt")
    run = create_run(TrainConfig(data=data), tmp_path / "run")
    run.unlock()
    saved = load_config(run.config).data
    assert saved.train_path == (str(tmp_path / "a.txt"), str(tmp_path / "b/*.txt"))
    assert saved.valid_path == str(tmp_path / "c.txt")


@pytest.mark.parametrize("key", ["train_path", "valid_path"])
def test_a_text_that_is_too_short_is_rejected_by_check_start(tmp_path, text, key):
    short = tmp_path / "short.txt"
    short.write_bytes(b"cat sat")
    data = dataclasses.replace(config_for(text).data, **{key: str(short)})
    config = dataclasses.replace(config_for(text), data=data)
    with rejects(f"data.{key}", 17):
        check_start(config)


def test_a_batch_that_memory_cannot_hold_is_rejected_by_check_start(text):
    config = dataclasses.replace(config_for(text), batch_size=10**12, device="cpu")
    with rejects("batch_size", 10**12):
        check_start(config)
    check_start(dataclasses.replace(config, accumulation=10**12))


def test_resuming_with_a_model_larger_than_its_checkpoint_is_rejected(tmp_path, text):
    config = config_for(text)
    start(config, tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    larger = dataclasses.replace(config, model=dataclasses.replace(MODEL, num_layers=10**9))
    with (
        rejects(None, run.config),
        opened(larger, run, Resumption()),
    ):
        pass
    with opened(config, run, Resumption()) as trainer:
        assert trainer.step == 1


def test_a_run_resumes_with_a_moved_text_but_not_with_a_changed_one(tmp_path, text):
    start(config_for(text), tmp_path / "run")
    run, moved = RunDirectory(tmp_path / "run"), tmp_path / "moved.txt"
    text.rename(moved)
    config = config_for(moved)
    with opened(config, run, Resumption()) as trainer:
        assert trainer.step == 1
    moved.write_bytes(moved.read_bytes() + b"!")
    with (
        rejects(None, "moved.txt changed"),
        opened(config, run, Resumption()),
    ):
        pass


# Resuming a run


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("values", [{}, {"optimizer": AdamWSettings(fused=True), "loss_chunks": 2}])
def test_a_deterministic_gpu_run_resumes_exactly(tmp_path, values):
    config = changed(device="cuda", deterministic=True, **values)
    make(tmp_path, config).fit()
    expected = outcome(tmp_path)
    again = resumed(tmp_path, config, RunDirectory(tmp_path).checkpoint(15))
    for unused in (tmp_path / "checkpoints").glob("*.unused"):
        unused.unlink()
    again.fit()
    assert outcome(tmp_path) == expected


@pytest.mark.parametrize("step", [1, 16, 20])
def test_a_run_that_crashed_in_a_step_resumes_exactly(tmp_path, uninterrupted, step):
    crash_in_step(make(tmp_path), step)
    saved = max([s for s in (0, 5, 8, 10, 15, 16) if s < step])
    assert_resumes_exactly(tmp_path, uninterrupted, step=saved)


@pytest.mark.parametrize("step", [8, 20])
@pytest.mark.parametrize("recorded", [False, True])
def test_a_run_that_crashed_in_an_evaluation_resumes_exactly(
    tmp_path, uninterrupted, step, recorded
):
    def report(line):
        if not recorded and line.startswith(f"step {step}: validation loss"):
            raise Crash

    trainer = make(tmp_path, report=report)
    trainer.loggers = [CrashingLogger(step)] if recorded else []
    with pytest.raises(Crash):
        trainer.fit()
    # The checkpoint was saved before the evaluation.
    assert_resumes_exactly(tmp_path, uninterrupted, step=step)


def test_resuming_a_complete_run_changes_nothing(tmp_path, uninterrupted):
    first = make(tmp_path).fit()
    assert resumed(tmp_path).fit() == first
    assert outcome(tmp_path) == uninterrupted


def test_the_perplexity_of_a_complete_run_comes_from_its_loss(tmp_path):
    result = make(tmp_path).fit()
    metrics = RunDirectory(tmp_path).metrics
    metrics.write_text(re.sub(r', "val_perplexity": [\d.]+', "", metrics.read_text()))
    assert resumed(tmp_path).fit() == result


def test_a_half_written_line_and_temporary_files_are_removed(tmp_path, uninterrupted):
    trainer = make(tmp_path)
    crash_in_step(trainer, 12)
    with open(trainer.run.metrics, "a") as file:
        file.write('{"step": 12, "tok')
    left = trainer.run.checkpoints / ".step_00000015.safetensors.123-0123abcd.tmp"
    left.write_bytes(b"half")
    assert_resumes_exactly(tmp_path, uninterrupted)  # fails if `left` still exists


def test_a_complete_run_continues_with_a_larger_max_steps(tmp_path):
    make(tmp_path, changed(max_steps=4)).fit()
    assert resumed(tmp_path, changed(max_steps=6)).fit().step == 6
    rows = RunDirectory(tmp_path).read_metrics()
    assert [row["step"] for row in rows if "val_loss" in row] == [4, 6]


def test_max_steps_below_the_step_of_the_checkpoint_is_rejected(tmp_path):
    make(tmp_path, changed(max_steps=4)).fit()
    with rejects("max_steps", 4, 3):
        resumed(tmp_path, changed(max_steps=3))


def test_a_damaged_checkpoint_is_skipped_if_asked(tmp_path, uninterrupted):
    lines = []
    make(tmp_path).fit()
    trainer = make(tmp_path, report=lines.append)
    *_, before, newest = trainer.run.steps_saved()
    trainer.run.checkpoint(newest).write_bytes(b"")
    with rejects(None, trainer.run.checkpoint(newest)):
        resume_run(trainer, Resumption())
    resume_run(trainer, Resumption(skip_damaged=True))
    assert trainer.step == before
    assert any(line.startswith("skipped: ") and f"{newest}" in line for line in lines)
    trainer.fit()
    (unused,) = trainer.run.checkpoints.glob("*.unused")
    unused.unlink()
    assert outcome(tmp_path) == uninterrupted


def test_no_file_changes_when_all_checkpoints_are_damaged_or_missing(tmp_path):
    make(tmp_path).fit()
    trainer = make(tmp_path)
    for step in trainer.run.steps_saved():
        trainer.run.checkpoint(step).write_bytes(b"")
    before = outcome(tmp_path)
    for skip_damaged in (False, True):
        with rejects(None, "checkpoints"):
            resume_run(trainer, Resumption(skip_damaged=skip_damaged))
    assert outcome(tmp_path) == before
    shutil.rmtree(trainer.run.checkpoints)
    before = outcome(tmp_path)
    for skip_damaged in (False, True):
        with rejects(None, "checkpoints"):
            resume_run(trainer, Resumption(skip_damaged=skip_damaged))
    assert outcome(tmp_path) == before


@pytest.mark.parametrize("error", [MemoryError("full"), torch.OutOfMemoryError("full")])
def test_running_out_of_memory_is_not_reported_as_damage(tmp_path, monkeypatch, error):
    make(tmp_path, changed(max_steps=5)).fit()

    def load(*arguments):
        raise error

    monkeypatch.setattr(start_module, "read_checkpoint", load)
    with pytest.raises(type(error), match=r"^full$"):
        resumed(tmp_path)


def test_resuming_from_a_checkpoint_outside_the_run_copies_it_into_the_run(tmp_path):
    make(tmp_path / "a").fit()
    moved = tmp_path / "moved"
    RunDirectory(tmp_path / "a").checkpoint(16).rename(moved)
    again = resumed(tmp_path / "a", checkpoint=moved)
    assert again.run.steps_saved() == [15, 16]


def test_another_checkpoint_of_the_run_replaces_the_one_of_the_same_step(tmp_path):
    make(tmp_path / "a").fit()
    make(tmp_path / "b", changed(max_steps=16)).fit()  # the same run with another learning rate
    other = RunDirectory(tmp_path / "b").checkpoint(16)
    again = resumed(tmp_path / "a", checkpoint=other)
    assert again.run.steps_saved() == [15, 16]
    assert_close(weights_of(again.run.checkpoint(16)), weights_of(other), rtol=0, atol=0)
    assert (again.run.checkpoints / "step_00000016.safetensors.unused").is_file()
    again.fit()
    assert losses_of(tmp_path / "a", "val_loss")[1] == losses_of(tmp_path / "b", "val_loss")[1]


HEADS = dataclasses.replace(CONFIG.model, num_heads=1)  # the weights have the same shapes


@pytest.mark.parametrize(
    ("values", "named"), [({"seed": 1}, "seed"), ({"model": HEADS}, "model.num_heads")]
)
def test_a_checkpoint_of_another_run_is_rejected_and_nothing_changes(tmp_path, values, named):
    make(tmp_path / "a", changed(max_steps=5)).fit()
    make(tmp_path / "b", changed(max_steps=5, **values)).fit()
    other = RunDirectory(tmp_path / "b").checkpoint(5)
    before = outcome(tmp_path / "a")
    with rejects(None, other, tmp_path / "a", named):
        resumed(tmp_path / "a", checkpoint=other)
    assert outcome(tmp_path / "a") == before


def test_a_checkpoint_of_a_different_model_is_rejected(tmp_path):
    make(tmp_path, changed(max_steps=2)).fit()
    wider = dataclasses.replace(CONFIG.model, d_ff=64)
    with rejects(None, "step_00000002") as error:
        resumed(tmp_path, changed(model=wider))
    assert "\n" not in str(error.value)


def test_a_final_checkpoint_without_metrics_is_evaluated(tmp_path):
    make(tmp_path / "a", changed(max_steps=3)).fit()
    checkpoint = RunDirectory(tmp_path / "a").checkpoint(3)
    result = resumed(tmp_path / "b", changed(max_steps=3), checkpoint).fit()
    assert math.isfinite(result.val_loss)
    assert math.isnan(result.train_loss)


def test_old_checkpoints_are_removed_before_a_resumed_run_writes(tmp_path, monkeypatch):
    crash_in_step(make(tmp_path), 16)
    run = RunDirectory(tmp_path)
    assert run.steps_saved() == [8, 10, 15]

    def full_disk(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("cs336_basics.checkpoints.run_dir.atomic_writer", full_disk)
        with pytest.raises(OSError, match="No space"):
            resumed(tmp_path, changed(keep_checkpoints=1))
    assert run.steps_saved() == [8, 15]  # the best and the newest
    assert resumed(tmp_path, changed(keep_checkpoints=1)).fit().step == 20


FUSED = AdamWSettings(fused=True, max_grad_norm=0.5)
FAST = {"loss_chunks": 3, "optimizer": FUSED, "accumulation": 2}


@pytest.mark.parametrize(
    "values",
    [
        FAST,
        {"optimizer": MuonSettings(row_beta=0.9)},
        pytest.param(
            {"optimizer": SGDSettings(momentum=0.9, nesterov=True)}, marks=pytest.mark.slow
        ),
        {"dropout": 0.2, "accumulation": 2, "checkpoint_activations": True},
        pytest.param({"dropout": 0.2, "compile": True}, marks=pytest.mark.slow),
        *(
            pytest.param({**FAST, "compile": True, "precision": name}, marks=pytest.mark.slow)
            for name in ("float32", "bfloat16")
        ),
        pytest.param(
            {"products": "onednn", "loss_chunks": 3},
            marks=pytest.mark.skipif(not has_onednn(), reason="needs oneDNN in torch"),
        ),
    ],
)
def test_every_implementation_resumes_exactly(tmp_path, values):
    assert_a_crashed_run_resumes_exactly(tmp_path, changed(**values))


@pytest.mark.usefixtures("float64")
def test_a_compiled_model_is_saved_under_plain_names_and_resumes(
    tmp_path, monkeypatch, uninterrupted_in_float64
):
    # The eager backend traces the graph but skips code generation, which takes a minute.
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    crash_in_step(make(tmp_path, changed(compile=True)), 17)
    again = resumed(tmp_path)  # not compiled
    again.fit()
    names = safe_open(RunDirectory(tmp_path).checkpoint(16), "pt").keys()
    assert {f"model.{name}" for name in again.model.state_dict()} < set(names)
    expected = uninterrupted_losses(uninterrupted_in_float64, "val_loss")
    assert losses_of(tmp_path, "val_loss") == pytest.approx(expected)


def test_a_run_made_longer_has_the_metrics_of_a_run_that_was_always_longer(tmp_path):
    schedule = dataclasses.replace(CONFIG.schedule, cycle_steps=20)
    whole = changed(schedule=schedule, log_every=2)
    short = dataclasses.replace(whole, max_steps=16)
    make(tmp_path / "whole", whole).fit()
    make(tmp_path / "run", short).fit()
    run = RunDirectory(tmp_path / "run")
    assert "val_loss_subset" in run.metrics.read_text()
    resumed(run.path, whole).fit()
    assert run.metrics.read_bytes() == RunDirectory(tmp_path / "whole").metrics.read_bytes()
