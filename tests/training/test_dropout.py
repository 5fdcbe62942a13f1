"""Dropout in a run: its seeds, and where it is off."""

from __future__ import annotations

import dataclasses

import torch

from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.training.data import step_seed
from cs336_basics.training.evaluation import sample_text
from tests.training.tiny_runs import (
    TOKENIZER,
    assert_a_crashed_run_resumes_exactly,
    changed,
    losses_of,
    make,
)


def test_each_step_and_process_has_its_own_seed():
    def numbers(*key):
        torch.manual_seed(step_seed(*key))
        return tuple(torch.rand(4).tolist())

    keys = [(0, 1, 0), (1, 1, 0), (0, 2, 0), (0, 1, 1)]
    assert len({numbers(*key) for key in keys}) == len(keys)
    assert numbers(0, 1, 0) == numbers(0, 1, 0)


def test_a_resumed_run_drops_what_the_whole_run_drops(tmp_path):
    assert_a_crashed_run_resumes_exactly(tmp_path, changed(dropout=0.2))


def test_evaluations_and_samples_of_a_run_use_the_whole_model(tmp_path):
    config = changed(dropout=0.5)
    trainer = make(tmp_path, config)
    trainer.fit()
    plain = make(tmp_path / "plain", dataclasses.replace(config, dropout=0.0))
    plain.model.load_state_dict(trainer.model.state_dict())
    assert plain.evaluate().loss == losses_of(tmp_path, "val_loss")[-1]
    sample = RunDirectory(tmp_path).sample(20).read_text(encoding="utf-8")
    assert sample == sample_text(plain.model, TOKENIZER, config, 20) + "\n"
