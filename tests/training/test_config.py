"""The dataclasses of a configuration refuse what YAML files could not say either."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from cs336_basics.data.data_config import DataConfig
from cs336_basics.training.config import OptimizerConfig, ScheduleConfig, TrainConfig
from cs336_basics.training.config_files import config_to_yaml, load_config


@pytest.mark.parametrize(
    ("make", "values", "message"),
    [
        (TrainConfig, {"precision": "bf16"}, "precision is 'bf16': it must be one of float32, bf"),
        (TrainConfig, {"parallel": "zero"}, "parallel is 'zero'"),
        (TrainConfig, {"fast": "on"}, "fast is 'on'"),
        (TrainConfig, {"seed": 2**64}, "seed is 18446744073709551616: it must fit 64 bits"),
        (TrainConfig, {"log_to": "wandb,wandb"}, "log_to is 'wandb,wandb'"),
        (OptimizerConfig, {"kind": "AdamW"}, "optimizer.kind is 'AdamW': it must be one of adamw,"),
        (ScheduleConfig, {"shape": "constant"}, "schedule.shape is 'constant'"),
        (DataConfig, {"errors": "ignore"}, "data.errors is 'ignore'"),
    ],
)
def test_a_value_that_is_not_one_of_the_possible_ones_is_refused(make, values, message):
    with pytest.raises(ValueError, match=message):
        make(**values)


@pytest.mark.parametrize(
    ("make", "values", "message"),
    [
        (TrainConfig, {"batch_size": "32"}, "batch_size is '32': it must be an integer"),
        (TrainConfig, {"batch_size": True}, "batch_size is True: it must be an integer"),
        (TrainConfig, {"max_steps": 10.5}, "max_steps is 10.5: it must be an integer"),
        (TrainConfig, {"seed": 1.5}, "seed is 1.5"),
        (TrainConfig, {"compile": "no"}, "compile is 'no': it must be true or false"),
        (TrainConfig, {"num_workers": "two"}, "num_workers is 'two': .* an integer or null"),
        (TrainConfig, {"model": {"d_model": 8}}, "model is .*: it must be of type ModelConfig"),
        (TrainConfig, {"name": 5}, "name is 5: it must be a string"),
        (TrainConfig, {"precision": 16}, "precision is 16: it must be one of"),
        (OptimizerConfig, {"betas": (0.9,)}, r"optimizer.betas is \(0.9,\): .* list of 2 numbers"),
        (OptimizerConfig, {"betas": 0.9}, "optimizer.betas is 0.9"),
        (OptimizerConfig, {"eps": "1e-8"}, "optimizer.eps is '1e-8': it must be a number"),
        (ScheduleConfig, {"cycle_steps": 0.5}, "schedule.cycle_steps is 0.5"),
        (DataConfig, {"train_path": 5}, "data.train_path is 5: it must be a string, or a list"),
        (DataConfig, {"train_path": ()}, r"data.train_path is \(\)"),
        (DataConfig, {"train_path": ["a", 5]}, "data.train_path is"),
        (DataConfig, {"field": b"text", "train_path": "a"}, "data.field is b'text'"),
    ],
)
def test_a_value_of_another_type_is_refused(make, values, message):
    with pytest.raises(TypeError, match=message):
        make(**values)


def test_equal_values_of_other_types_become_those_that_yaml_can_hold(tmp_path):
    config = TrainConfig(
        batch_size=np.int64(8),
        sample_temperature=np.float32(0.5),
        compile=np.bool_(True),
        schedule=ScheduleConfig(max_learning_rate=1, cycle_steps=np.uint8(7)),
        optimizer=OptimizerConfig(betas=[0, np.float64(0.5)]),
        data=DataConfig(train_path=[Path("a.txt"), "b.txt"], data_dir=Path("c")),
    )
    assert dataclasses.astuple(config.optimizer)[1] == (0.0, 0.5)
    assert config.data.train_path == ("a.txt", "b.txt")
    assert type(config.schedule.max_learning_rate) is float
    path = tmp_path / "config.yaml"
    path.write_text(config_to_yaml(config), encoding="utf-8")
    assert load_config(path) == config


@pytest.mark.parametrize(
    ("text", "value"), [("010", 10), ("1_000", 1000), ("+5", 5), ("'12'", 12), ("0b11", None),
                        ("1:30", None), ("0x1f", None), ("1.0", None)]
)  # fmt: skip
def test_integers_in_yaml_are_decimal(tmp_path, text, value):
    path = tmp_path / "config.yaml"
    path.write_text(f"max_steps: {text}\n", encoding="utf-8")
    if value is not None:
        assert load_config(path).max_steps == value
        return
    with pytest.raises(ValueError, match=r"max_steps is .*: it must be an integer"):
        load_config(path)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-3", 1e-3), ("1.5e-3", 1.5e-3), (".5", 0.5), ("1.", 1.0), ("2", 2.0), ("1:30.5", None)],
)
def test_numbers_in_yaml_are_decimal(tmp_path, text, value):
    path = tmp_path / "config.yaml"
    path.write_text(f"optimizer:\n  max_grad_norm: {text}\n", encoding="utf-8")
    if value is not None:
        assert load_config(path).optimizer.max_grad_norm == value
        return
    with pytest.raises(ValueError, match=r"optimizer\.max_grad_norm is '1:30.5': .* a number"):
        load_config(path)
