"""A start that failed can be repeated in the same directory, once its cause is removed."""

from __future__ import annotations

import dataclasses
import os
import sys

import pytest

from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.data.data_config import DataConfig
from cs336_basics.model import ModelConfig
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.start import Resumption, check_start, create_run, open_trainer

MODEL = ModelConfig(
    vocab_size=270, context_length=16, d_model=16, num_layers=1, num_heads=2, d_ff=32
)


def config_for(text, **data):
    data = DataConfig(train_path=str(text), valid_path=str(text), **data)
    return TrainConfig(
        max_steps=1, batch_size=2, device="cpu", num_workers=1, model=MODEL, data=data
    )


def start(config, path):
    run = create_run(config, path)
    with open_trainer(config, run, report=lambda line: None) as trainer:
        trainer.fit()


@pytest.fixture
def text(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("The cat sat on the mat.<|endoftext|>" * 30)
    return file


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        ("text", "context length of 16"),
        ("tokenizer", "tokenizer"),
        ("logger", "trackio"),
        ("vocabulary", "model.vocab_size is 10"),
    ],
)
def test_a_failed_start_can_be_repeated(tmp_path, text, monkeypatch, cause, message):
    good = bad = config_for(text)
    if cause == "text":
        short = tmp_path / "short.txt"
        short.write_text("cat")
        bad = config_for(short)
    elif cause == "tokenizer":
        bad = config_for(text, tokenizer=str(tmp_path / "nowhere"))
    elif cause == "vocabulary":
        bad = dataclasses.replace(good, model=dataclasses.replace(MODEL, vocab_size=10))
    else:
        monkeypatch.setitem(sys.modules, "trackio", None)  # as if it were not installed
        bad = dataclasses.replace(good, log_to="trackio")
    path = tmp_path / "run"
    with pytest.raises((ValueError, OSError), match=message):
        start(bad, path)
    assert not path.exists()
    start(good, path)
    assert (path / "checkpoints" / "step_00000001.safetensors").is_file()


def test_a_failed_resumption_removes_nothing(tmp_path, text):
    config = config_for(text)
    path = tmp_path / "run"
    start(config, path)
    before = sorted(path.rglob("*"))
    run = RunDirectory(path)
    resume = Resumption(checkpoint=tmp_path / "nowhere")
    with (
        pytest.raises(ValueError, match="nowhere"),
        open_trainer(config, run, resume=resume, report=lambda line: None),
    ):
        pass
    assert sorted(path.rglob("*")) == before


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such locks")
def test_a_directory_that_another_run_has_locked_is_not_written_to(tmp_path):
    other = RunDirectory(tmp_path / "run")
    other.lock()
    config = TrainConfig()
    with pytest.raises(ValueError, match="in use"):
        create_run(config, other.path)
    with (
        pytest.raises(ValueError, match="in use"),
        open_trainer(config, RunDirectory(other.path)),
    ):
        pass
    assert [file.name for file in other.path.iterdir()] == [".lock"]
    other.unlock()


@pytest.mark.parametrize("key", ["train_path", "valid_path"])
def test_a_text_that_is_too_short_is_refused_before_anything_is_made(tmp_path, text, key):
    short = tmp_path / "short.txt"
    short.write_bytes(b"cat sat")
    data = dataclasses.replace(config_for(text).data, **{key: str(short)})
    config = dataclasses.replace(config_for(text), data=data)
    with pytest.raises(ValueError, match=f"data.{key} holds 7 bytes.* 17 tokens"):
        check_start(config)


@pytest.mark.parametrize(
    "values", [{"num_layers": 10**9}, {"d_ff": 10**15}, {"context_length": 10**12}]
)
def test_a_resumed_run_takes_no_memory_for_a_model_that_its_checkpoint_cannot_hold(
    tmp_path, text, values
):
    config = config_for(text)
    start(config, tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    larger = dataclasses.replace(config, model=dataclasses.replace(MODEL, **values))
    with (
        pytest.raises(ValueError, match="does not fit the run"),
        open_trainer(larger, run, resume=Resumption(), report=lambda line: None),
    ):
        pass
    with open_trainer(config, run, resume=Resumption(), report=lambda line: None) as trainer:
        assert trainer.step == 1


def test_a_run_continues_after_its_text_has_moved_but_not_with_another(tmp_path, text):
    start(config_for(text), tmp_path / "run")
    run, moved = RunDirectory(tmp_path / "run"), tmp_path / "moved.txt"
    text.rename(moved)
    config = config_for(moved)
    with open_trainer(config, run, resume=Resumption(), report=lambda line: None) as trainer:
        assert trainer.step == 1
    moved.write_bytes(moved.read_bytes() + b"!")
    with (
        pytest.raises(ValueError, match="different data"),
        open_trainer(config, run, resume=Resumption(), report=lambda line: None),
    ):
        pass
