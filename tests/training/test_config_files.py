"""Configurations as YAML: what a file may hold, what is refused, and what is written."""

from __future__ import annotations

import dataclasses
import os

import pytest
import yaml

from cs336_basics.training.config import OptimizerConfig, ScheduleConfig, TrainConfig
from cs336_basics.training.config_files import (
    NAMED_CONFIGS,
    ConfigError,
    config_keys,
    config_to_dict,
    config_to_yaml,
    find_config,
    load_config,
    parse_value,
    unknown_name,
)


@pytest.fixture
def load(tmp_path):
    def load(text, changes=None):
        file = tmp_path / "a.yaml"
        file.write_text(text, encoding="utf-8")
        return load_config(file, changes)

    return load


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("max_steps: 5", "max_steps", 5),
        ("max-steps: 5", "max_steps", 5),
        ("max_steps: 1_000", "max_steps", 1000),
        ("compile: yes", "compile", True),
        ("fast: off", "fast", "off"),
        ("name: 2026-01-01", "name", "2026-01-01"),
        ("num_workers: null", "num_workers", None),
        ("schedule:\n  max_learning_rate: 1e-2", "schedule.max_learning_rate", 0.01),
        ("schedule:\n  max_learning_rate: 1.0e-2", "schedule.max_learning_rate", 0.01),
        ("schedule:\n  max_learning_rate: 1", "schedule.max_learning_rate", 1.0),
        ("schedule.max_learning_rate: 0.01", "schedule.max_learning_rate", 0.01),
        ("optimizer:\n  betas: [0.8, 0]", "optimizer.betas", (0.8, 0.0)),
        ("model: {}\nseed: 3", "seed", 3),
        ("data:\n  train_path: a.txt", "data.train_path", "a.txt"),
        ("data:\n  train_path: [a.txt]", "data.train_path", "a.txt"),
        ("data:\n  train_path: [a.txt, 1e5]", "data.train_path", ("a.txt", "1e5")),
        ("data:\n  train_path: null", "data.train_path", None),
    ],
)
def test_values_have_the_types_of_their_keys(load, text, key, value):
    config = load(text)
    found = config_keys(config)[key].default
    assert (found, type(found)) == (value, type(value))
    expected = {**{k.name: k.default for k in config_keys().values()}, key: value}
    assert {k.name: k.default for k in config_keys(config).values()} == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_steps: many", "max_steps is 'many': it must be an integer"),
        ("max_steps: 1.5", "max_steps is 1.5: it must be an integer"),
        ("max_steps: true", "max_steps is True: it must be an integer"),
        ("max_steps: null", "max_steps is None: it must be an integer"),
        ("num_workers: x", "num_workers is 'x': it must be an integer or null"),
        ("compile: 1", "compile is 1: it must be true or false"),
        ("name: 5", "name is 5: it must be a string"),
        ("precision: float64", "precision is 'float64': it must be one of float32, bfloat16"),
        ("optimizer:\n  betas: [1]", "optimizer.betas is [1]: it must be a list of 2 numbers"),
        ("data: {train_path: []}", "data.train_path is []: it must be a string, or a list"),
        ("data: {train_path: [a, 5]}", "data.train_path is ['a', 5]: it must be a string, or"),
        ("data: {train_path: 5}", "data.train_path is 5: it must be a string, or a list"),
        ("optimizer:\n  eps: wide", "optimizer.eps is 'wide': it must be a number"),
        ("model: 5", "model is 5: it is a section"),
        ("model:", "model is None: it is a section"),
        ("max_step: 5", "unknown option 'max_step': did you mean max_steps"),
        ("modle: {d_model: 5}", "unknown option 'modle': did you mean model"),
        ("d_model: 5", "unknown option 'd_model': did you mean model.d_model?"),
        ("config: other.yaml", "unknown option 'config'"),
        ("max_steps: 1\nmax_steps: 2", "max_steps is given twice"),
        ("max_steps: 1\nmax-steps: 2", "max_steps is given twice"),
        ("model: {d_ff: 1, d_ff: 2}", "d_ff is given twice"),
        ("seed: &a [*a]", "alias"),
        ("- 5", "it must hold names and values"),
        ("", "it must hold names and values"),
        ("a: [", "is not YAML"),
        ("name: !!python/object/apply:os.getcwd []", "is not YAML"),
        ("batch_size: 0", "batch_size is 0: it must be at least 1"),
    ],
)
def test_errors_name_the_file_and_the_key_on_one_line(load, text, message):
    with pytest.raises(ConfigError) as error:
        load(text)
    assert message in str(error.value)
    assert "a.yaml" in str(error.value)
    assert "\n" not in str(error.value)


def test_changes_override_the_file(load):
    config = load("max_steps: 5\nseed: 2\n", {"max_steps": 7, "model.d_ff": 8})
    assert (config.max_steps, config.seed, config.model.d_ff) == (7, 2, 8)


def test_an_error_caused_by_the_changes_does_not_name_the_file(load):
    with pytest.raises(ConfigError, match=r"^max_steps is 0"):
        load("seed: 1", {"max_steps": 0})


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("seed", "5", 5),
        ("sample_prompt", "5", "5"),
        ("sample_prompt", "{a: 1}", "{a: 1}"),
        ("data.tokenizer", "null", None),
        ("sample_prompt", "null", "null"),
        ("optimizer.betas", "[0.8, 0.9]", (0.8, 0.9)),
        ("schedule.max_learning_rate", "1e-2", 0.01),
    ],
)
def test_words_of_a_command_line_are_yaml_except_for_strings(key, text, value):
    assert parse_value(config_keys()[key], text) == value


def test_a_word_that_is_not_yaml_is_shown_as_it_was():
    with pytest.raises(ConfigError, match=r"seed is '\[1': it must be an integer"):
        parse_value(config_keys()["seed"], "[1")


def test_an_unknown_name_without_neighbours_points_to_help():
    assert unknown_name("zzzzzz", config_keys()).endswith("see --help for all names")


@pytest.mark.parametrize("name", NAMED_CONFIGS)
def test_a_written_configuration_reads_back_the_same(load, name):
    config = dataclasses.replace(
        load_config(find_config(name)),
        name="1e5",
        sample_prompt="off: 'x' \"y\"\n",
        optimizer=OptimizerConfig(betas=(0.8, 0.99), eps=1e-9),
        schedule=ScheduleConfig(cycle_steps=123),
    )
    assert load(config_to_yaml(config)) == config
    assert yaml.safe_load(config_to_yaml(config))["optimizer"]["betas"] == [0.8, 0.99]


def test_the_dictionary_is_nested():
    assert config_to_dict(TrainConfig())["model"]["d_model"] == 512


def test_a_missing_file_and_an_unknown_name_are_errors(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere.*must be a file or one of sample"):
        find_config("nowhere")
    with pytest.raises(ConfigError, match="nowhere"):
        load_config(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("name: &a x\nseed: *a\n", r"line 2 has the alias \*a: write the value itself"),
        ("name: &a [*a]\n", r"line 1 has the alias \*a"),
        ("x: &a {b: 1}\nmodel:\n  <<: *a\n", r"line 3 has the alias"),
        ("name: !!int ''\n", "is not YAML"),
        ("name: !!bool x\n", "is not YAML"),
        ("name: !!float x\n", "is not YAML"),
        ("name: !!timestamp x\n", "is not YAML"),
        ("name: !!python/name:os.system x\n", "is not YAML"),
        ("? [a]\n: 1\n", "line 1 has a name that is not a word"),
        ("? {a: 1}\n: 1\n", "line 1 has a name that is not a word"),
        ("a" * 1_000 + ": 1\n", "unknown option 'aaa"),
        ("seed: [" + "1, " * 10_000 + "1]\n", r"seed is \[1, 1"),
        ("model: [" + "1, " * 10_000 + "1]\n", r"model is \[1, 1"),
        ("seed: " + "9" * 5_000 + "\n", "seed is|is not YAML"),
        ("seed: " + "1:" * 5_000 + "1\n", "seed is '1:1"),
        ("seed: 9223372036854775808\n", "seed is 9223372036854775808: it must fit 64 bits"),
        ("[" * 100_000, "is not YAML"),
        ("log_to: " + "x" * 100_000 + "\n", "log_to is 'xxx"),
        ("x" * 300_000, "more than 262,144 bytes"),
        ("\x00", "is not YAML"),
    ],
)
def test_odd_yaml_is_refused_with_one_short_line(tmp_path, content, message):
    path = tmp_path / "odd.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as caught:
        load_config(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500 + len(str(path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="FIFOs are those of POSIX")
def test_a_fifo_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "c.yaml")
    with pytest.raises(ConfigError, match=r"c\.yaml is a FIFO"):
        load_config(tmp_path / "c.yaml")
