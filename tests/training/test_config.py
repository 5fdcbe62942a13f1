"""Validation of the values in a run's configuration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cs336_basics.data.data_config import DataConfig
from cs336_basics.training.config import ScheduleConfig, TrainConfig
from cs336_basics.training.optimizers import AdamWSettings, MuonSettings, SGDSettings
from tests.errors import rejects

REJECTED = [
    (TrainConfig, "name", "a/b"),
    *((TrainConfig, "dropout", fraction) for fraction in (-0.1, 1.0)),
    (TrainConfig, "seed", -1),
    (TrainConfig, "seed", 2**63 - 1),
    *((TrainConfig, name, 0) for name in ("log_every", "eval_every", "checkpoint_every")),
    *((TrainConfig, name, 0) for name in ("keep_checkpoints", "loss_chunks")),
    (TrainConfig, "batch_size", 2**63),
    (TrainConfig, "accumulation", 3),
    (TrainConfig, "num_workers", 0),
    (TrainConfig, "num_workers", 4097),
    (TrainConfig, "eval_windows", -1),
    (TrainConfig, "sample_tokens", -1),
    (TrainConfig, "sample_temperature", -0.1),
    (TrainConfig, "sample_top_p", 0),
    (TrainConfig, "sample_top_p", 1.01),
    (TrainConfig, "log_to", "wandb,wandb"),
    (TrainConfig, "log_to", "wandb,mlflow"),
    (AdamWSettings, "betas", (0.9,)),
    (AdamWSettings, "betas", (0.9, 1.0)),
    (AdamWSettings, "eps", 0),
    (AdamWSettings, "eps", 1e-300),
    (AdamWSettings, "weight_decay", -1),
    (AdamWSettings, "weight_decay", 1e300),
    (SGDSettings, "momentum", 1),
    (SGDSettings, "momentum", -0.1),
    (MuonSettings, "embedding_lr_scale", -1),
    (MuonSettings, "head_lr_scale", -1),
    (AdamWSettings, "max_grad_norm", 0),
    (ScheduleConfig, "max_learning_rate", 0),
    (ScheduleConfig, "max_learning_rate", 1e300),
    (ScheduleConfig, "min_learning_rate", -1),
    (ScheduleConfig, "min_learning_rate", 1),
    (ScheduleConfig, "warmup_fraction", 1),
    (ScheduleConfig, "warmup_fraction", -0.1),
    (ScheduleConfig, "decay_fraction", 1.5),
    (ScheduleConfig, "cycle_steps", 0),
    (DataConfig, "dataset", "pile"),
    (DataConfig, "sample_bytes", 999),
    (DataConfig, "train_path", ()),
    (DataConfig, "valid_path", "x"),
    (DataConfig, "valid_fraction", 0),
    (DataConfig, "valid_fraction", 1),
    (DataConfig, "field", "text"),
    (DataConfig, "column", "text"),
    (DataConfig, "errors", "ignore"),
]


@pytest.mark.parametrize(("make", "name", "value"), REJECTED)
def test_an_invalid_value_is_rejected_by_name(make, name, value):
    with rejects(name):
        make(**{name: value})


@pytest.mark.parametrize(
    ("make", "values", "fields"),
    [
        (SGDSettings, {"nesterov": True, "momentum": 0}, ("nesterov",)),
        (DataConfig, {"tokenizer": "t", "normalizer": "NFC"}, ("normalizer", "NFC")),
        (DataConfig, {"tokenizer": "t", "pattern": "cl100k"}, ("pattern", "cl100k")),
        (TrainConfig, {"products": "onednn", "precision": "bfloat16"}, ("products", "bfloat16")),
    ],
)
def test_values_that_contradict_each_other_are_rejected(make, values, fields):
    with rejects(*fields):
        make(**values)


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (TrainConfig, {"seed": 2**63 - 2, "num_workers": 4096, "sample_top_p": 1}),
        (TrainConfig, {"batch_size": 6, "accumulation": 3, "sample_temperature": 0}),
        (TrainConfig, {"log_to": "wandb,trackio", "name": "a-1.b_c", "eval_windows": 0}),
        (MuonSettings, {"betas": (0, 0.999), "weight_decay": 0, "momentum": 0}),
        (TrainConfig, {"products": "onednn"}),
        (SGDSettings, {"nesterov": True, "momentum": 0.5}),
        (ScheduleConfig, {"min_learning_rate": 0.01, "max_learning_rate": 0.01}),
        (ScheduleConfig, {"warmup_fraction": 0, "decay_fraction": 0, "cycle_steps": 1}),
        (DataConfig, {"sample_bytes": 1000, "train_path": "a", "valid_path": "b", "field": "t"}),
    ],
)
def test_values_at_the_limits_are_allowed(make, values):
    config = make(**values)
    assert {name: getattr(config, name) for name in values} == values


def test_values_are_converted_to_types_that_yaml_can_store():
    config = TrainConfig(
        batch_size=np.int64(8),
        sample_temperature=np.float32(0.5),
        compile=np.bool_(True),
        schedule=ScheduleConfig(max_learning_rate=1, cycle_steps=np.uint8(7)),
        optimizer=AdamWSettings(betas=[0, np.float64(0.5)]),
        data=DataConfig(train_path=[Path("a.txt"), "b.txt"], data_dir=Path("c")),
    )
    assert (type(config.batch_size), type(config.compile)) == (int, bool)
    assert type(config.schedule.cycle_steps) is int
    assert config.optimizer.betas == (0.0, 0.5)
    assert config.data.train_path == ("a.txt", "b.txt")
    assert (DataConfig(train_path=["a"]).train_path, config.data.data_dir) == ("a", "c")
    assert type(config.schedule.max_learning_rate) is float


def test_eval_batches_is_a_multiple_of_the_batch_size():
    with pytest.warns(UserWarning, match=r"eval_windows.*\b20\b"):
        config = TrainConfig(eval_batches=5, batch_size=4)
    assert config == TrainConfig(eval_windows=20, batch_size=4)


def test_a_model_takes_the_size_of_the_tokenizer_unless_its_weights_are_loaded(tmp_path):
    config = TrainConfig()
    assert config.with_vocab_size(300).model.vocab_size == 300
    loaded = TrainConfig(init_from=str(tmp_path))
    assert loaded.with_vocab_size(300) == loaded
