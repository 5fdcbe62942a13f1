"""Helpers that start, crash and compare runs of a few steps."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from cs336_basics._support.text import ASSISTANT, END_OF_TEXT, USER, turn
from cs336_basics.checkpoints.checkpoint import read_checkpoint
from cs336_basics.checkpoints.run_dir import RunDirectory, comparable
from cs336_basics.data.data_config import DataConfig
from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.training.config import ScheduleConfig, TrainConfig
from cs336_basics.training.optimizers import AdamWSettings
from cs336_basics.training.start import Resumption, resume_run
from cs336_basics.training.trainer import Trainer
from tests.tokenizer.examples import byte_tokenizer

CONFIG = TrainConfig(
    max_steps=20,
    batch_size=4,
    device="cpu",
    log_every=3,
    eval_every=8,
    eval_windows=8,
    checkpoint_every=5,
    keep_checkpoints=3,
    sample_tokens=12,
    model=ModelConfig(
        vocab_size=257, context_length=16, d_model=16, num_layers=1, num_heads=2, d_ff=32
    ),
    optimizer=AdamWSettings(max_grad_norm=0.5),
    schedule=ScheduleConfig(max_learning_rate=1e-2, min_learning_rate=1e-3, warmup_fraction=0.2),
)
TOKENIZER = byte_tokenizer("<|endoftext|>")
TEXT = "The cat sat on the mat, and the dog ate the hat.<|endoftext|>" * 60
TRAIN = np.array(TOKENIZER.encode(TEXT), dtype=np.uint16)
VALID = np.array(TOKENIZER.encode(TEXT[30:1000]), dtype=np.uint16)

# Attention and bigrams within documents. Many documents are shorter than a window.
PACKED = dataclasses.replace(
    CONFIG,
    data=DataConfig(pack="documents"),
    model=dataclasses.replace(CONFIG.model, bigram_rows=61),
)
SHORT = "".join("The cat sat on the mat."[: 3 + 5 * i % 20] + END_OF_TEXT for i in range(200))
SHORT_IDS = np.array(TOKENIZER.encode(SHORT), dtype=np.uint16)

# Instruction data: prompts and answers of different lengths, some longer than a window.
TURNS = dataclasses.replace(
    CONFIG,
    data=DataConfig(train_path="turns.jsonl", prompt_field="prompt", answer_field="answer"),
    model=dataclasses.replace(CONFIG.model, vocab_size=259),
)
TURNS_TOKENIZER = byte_tokenizer(END_OF_TEXT, USER, ASSISTANT)
_ANSWERS = (turn("Who?" * (i % 5), "The cat. " * (i % 4)) + END_OF_TEXT for i in range(60))
TURN_IDS = np.array(TURNS_TOKENIZER.encode("".join(_ANSWERS)), dtype=np.uint16)


def make(path, config=CONFIG, train=TRAIN, valid=VALID, **options):
    run = RunDirectory(path)
    run.path.mkdir(parents=True, exist_ok=True)
    options = {"tokenizer": TOKENIZER, "report": lambda line: None, **options}
    return Trainer(config, train, valid, run, **options)


def changed(config=CONFIG, **values):
    return dataclasses.replace(config, **values)


def outcome(path):
    """Return the bytes of each reproducible file of a run, by name."""
    run = RunDirectory(path)
    kept = {}
    for file in sorted(run.path.rglob("*")):
        if file.is_file() and file not in (run.timings, run.loss_plot):
            kept[str(file.relative_to(run.path))] = file.read_bytes()
    return kept


def weights_of(checkpoint, config=CONFIG):
    model = TransformerLM(config.model)
    read_checkpoint(checkpoint, model, None)
    return model.state_dict()


def losses_of(path, key):
    """Return a metric of all rows. Validation metrics are for the same windows in all rows."""
    return [comparable(row, key) for row in RunDirectory(path).read_metrics() if key in row]


def uninterrupted_losses(uninterrupted, key="train_loss"):
    rows = map(json.loads, uninterrupted["metrics.jsonl"].splitlines())
    return [comparable(row, key) for row in rows if key in row]


class Crash(Exception):
    """Simulates the death of a process."""


def crash_in_step(trainer, step):
    """Train until the optimizer would take a step."""

    def stop(*_):
        if trainer.step + 1 == step:
            raise Crash

    trainer.optimizer.register_step_pre_hook(stop)
    with pytest.raises(Crash):
        trainer.fit()


class CrashingLogger:
    """A logger that crashes when it receives the evaluation of a step."""

    def __init__(self, step):
        self.step = step

    def log(self, row):
        if "val_loss" in row and row["step"] == self.step:
            raise Crash


def resumed(path, config=CONFIG, checkpoint=None):
    """Return a new trainer that has resumed a run."""
    trainer = make(path, config)
    resume_run(trainer, Resumption(checkpoint))
    return trainer


def assert_resumes_exactly(path, expected, config=CONFIG, step=None):
    """Resume a run, after `step` if given, and assert that it ends with the expected files."""
    trainer = resumed(path, config)
    assert step in (None, trainer.step)
    trainer.fit()
    assert outcome(path) == expected


def assert_a_crashed_run_resumes_exactly(tmp_path, config):
    make(tmp_path / "whole", config).fit()
    crash_in_step(make(tmp_path / "run", config), 12)
    assert_resumes_exactly(tmp_path / "run", outcome(tmp_path / "whole"), config)
