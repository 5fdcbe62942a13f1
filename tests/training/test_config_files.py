"""Reading and writing configurations as YAML, with checks."""

from __future__ import annotations

import dataclasses
import os
import re

import pytest
import yaml

from cs336_basics._support.errors import InputError
from cs336_basics.data.data_config import DataConfig
from cs336_basics.model import ModelConfig
from cs336_basics.training.config import ScheduleConfig, TrainConfig
from cs336_basics.training.config_files import (
    NAMED_CONFIGS,
    config_to_yaml,
    config_with_origins,
    find_config,
    load_config,
)
from cs336_basics.training.optimizers import AdamWSettings, SGDSettings
from tests.errors import rejects


@pytest.fixture
def load(tmp_path):
    def load(text, changes=None, base="none"):
        file = tmp_path / "a.yaml"
        # `base` goes last so that line numbers do not change.
        file.write_text(f"{text}\nbase: {base}\n" if base else text, encoding="utf-8")
        return load_config(file, changes)

    return load


def flat(config):
    return {
        f"{name}.{key}" if isinstance(value, dict) else name: inner
        for name, value in dataclasses.asdict(config).items()
        for key, inner in (value.items() if isinstance(value, dict) else [(name, value)])
    }


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("max_steps: 5", "max_steps", 5),
        ("max-steps: 5", "max_steps", 5),
        ("max_steps: 1_000", "max_steps", 1000),
        ("max_steps: 010", "max_steps", 10),
        ("compile: yes", "compile", True),
        ("name: 2026-01-01", "name", "2026-01-01"),
        ("num_workers: 3", "num_workers", 3),
        ("schedule:\n  max_learning_rate: 1e-2", "schedule.max_learning_rate", 0.01),
        ("schedule:\n  max_learning_rate: 1", "schedule.max_learning_rate", 1.0),
        ("schedule.max_learning_rate: 0.01", "schedule.max_learning_rate", 0.01),
        ("optimizer:\n  betas: [0.8, 0]", "optimizer.betas", (0.8, 0.0)),
        ("model: {}\nseed: 3", "seed", 3),
        ("data:\n  train_path: a.txt", "data.train_path", "a.txt"),
        ("data:\n  train_path: [a.txt]", "data.train_path", "a.txt"),
        ("data:\n  train_path: [a.txt, 1e5]", "data.train_path", ("a.txt", "1e5")),
    ],
)
def test_values_have_the_types_of_their_keys(load, text, key, value):
    found = flat(load(text))
    assert (found[key], type(found[key])) == (value, type(value))
    assert found == {**flat(TrainConfig()), key: value}


def test_null_is_none_only_for_optional_values(load):
    config = load("num_workers: null\nsample_prompt: null\ndata: {train_path: null}")
    assert (config.num_workers, config.data.train_path) == (None, None)
    assert config.sample_prompt == "null"
    assert load("name: off").name == "off"  # YAML 1.1 would read `off` as false


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_steps: 1.5", "line 1, column 12: max_steps .*'1.5'"),
        ("max_steps: '24'", "max_steps .*'24'"),
        ("max_steps: null", "max_steps .*'null'"),
        ("\n\ncompile: 3", "line 3, column 10: compile .*'3'"),
        ("optimizer:\n  betas: [1, x]", "line 2, column 10: optimizer.betas "),
        ("optimizer: {kind: adam}", "line 1, column 19: optimizer.kind .*'adamw'.*'adam'"),
        ("optimizer: {momentum: 0.9, kind: muonn}", "optimizer.kind .*'muon'.*'muonn'"),
        ("optimizer: {nesterov: true}", "optimizer.nesterov is not a setting of muon"),
        ("fast: auto", "line 1, column 7: .*fast"),
        ("model: 5", "line 1, column 8: .*model"),
        ("model: {d_model: {a: 1}}", "model.d_model .*{'a': '1'}"),
        ("a b: 5", "line 1, column 6: .*a b"),
        ("max_step: 5", "max_step.* did you mean .?max_steps"),
        ("max_steps: 1\nmax_steps: 2", "line 2, column 12: 'max_steps'"),
        ("max_steps: 1\nmax-steps: 2", "line 2, column 12: 'max_steps'"),
        ("model: {d_ff: 1, d_ff: 2}", "'model.d_ff'"),
        ("- 5", "names and values"),
        ("", "names and values"),
        ("a: [", "line 1, column 5: not YAML"),
        ("seed: 1\n\ta: 2", "line 2, column 1: not YAML"),
        ("seed: 1\n---\na: 2", "line 2, column 1: not YAML: .*single document"),
        ("model:\n  <<: {d_ff: 8}", "model.<<"),
        ("seed: &a [*a]", "line 1, column 7: not YAML"),
        ("\nname: !!python/object/apply:os.getcwd []", "line 2, column 7: .*'!!python/object/app"),
        ("name: !!python/object/apply:os.getcwd x", "line 1, column 7: .*'!!python/object/apply"),
        ("seed: 1\nmodel:\n  d_ff: !env D_FF", "line 3, column 9: a value .*'!env'; remove"),
        ("seed: 1\nmodel: !mine {d_ff: 64}", "line 2, column 8: .*'!mine'"),
        ("!config\nseed: 1", "line 1, column 1: .*'!config'"),
        ("!key seed: 1", "line 1, column 1: .*'!key'"),
        ("seed: ! 1", "line 1, column 7: .*'!'"),
        ("seed: !<tag:example.com,2000:x> 1", "'tag:example.com,2000:x'"),
        ("# a\n%include base.yaml\n---\nseed: 1", "line 2, column 1: .*'%include'; remove"),
        ("%TAG ! tag:a,2000:\n---\nseed: 1", "line 1, column 1: .*'%TAG'"),
        ("seed: !!str [1]", "line 1, column 7: .*'!!str'"),
        ("seed: !!null 5", "'!!null'"),
        ("seed: !x" + "y" * 100_000 + " 1", "'!xyy"),
        ("seed: !!str 5", "seed .*'5'"),  # as in quotes
        ("? [a]\n: 1\n", "line 1, column 3: not YAML"),
        ("a" * 1_000 + ": 1\n", "aaa"),
        ("seed: [" + "1, " * 10_000 + "1]\n", r"seed .*\['1', '1'"),
        ("[" * 100_000, "nested too deeply"),
        ("log_to: " + "x" * 100_000 + "\n", "log_to .*'xxx"),
        ("x" * 300_000, "262,144 bytes"),
        ("seed: 1\nname: \x00", "line 2, column 7: not YAML"),
        ("seed: *" + "x" * 100_000, "line 1, column 7: not YAML"),
        ('name: "\\U00110000"', "not YAML"),
        ("%YAML " + "9" * 5_000 + ".1\n---\nseed: 1\n", "not YAML"),
        ("model:\n  d_model: 3\n  num_heads: 2\n", r"num_heads .*\(3\)"),
        ("base: smple", "line 1, column 7: base .*'smple'"),
        ("base: [sample]", r"base .*\['sample'\]"),
        ("model: {base: sample}", "model.base"),
    ],
)
def test_an_error_is_one_short_line(load, tmp_path, text, message):
    with pytest.raises(InputError) as error:
        load(text, base=None)
    assert "a.yaml" in error.value.place
    found = str(error.value)
    assert re.search(message, found)
    assert "\n" not in found
    assert len(found) < 700 + len(str(tmp_path))


def test_an_error_has_the_position_of_a_value_from_the_file(load):
    with rejects("batch_size", "'0'", place="a.yaml, line 1, column 13") as caught:
        load("batch_size: 0", {"seed": 1})
    # A name in a file is no option, so a command does not show the option of this name.
    assert "batch_size must" in caught.value.message(lambda argument: f"--{argument.name}")
    with rejects("max_steps", 0):
        load("max_steps: 5", {"max_steps": 0})


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        (None, find_config("sample")),
        *((name, find_config(name)) for name in NAMED_CONFIGS),
        ("none", None),
    ],
)
def test_a_file_overrides_only_its_own_values_of_the_base(load, base, expected):
    before = TrainConfig() if expected is None else load_config(expected)
    found = load("data:\n  train_path: a.txt\nmodel: {d_ff: 256}", base=base)
    changes = {"data.train_path": "a.txt", "model.d_ff": 256}
    assert flat(found) == {**flat(before), **changes}


def test_the_configuration_with_origins_reads_back_the_same(load, tmp_path):
    config = load(
        "sample_prompt: \"a\\n\\n b: '#' c\"\ndata: {train_path: [a, 'null'], pattern: \"x\\n #\"}"
    )
    text = config_with_origins(config, {"max_steps": "--max-steps"})
    (tmp_path / "b.yaml").write_text(text, encoding="utf-8")
    assert load_config(tmp_path / "b.yaml") == config
    assert text.count("# default") == len(flat(config)) - 1
    assert re.search(r"^max_steps: 1000 +# --max-steps$", text, re.MULTILINE)


def test_a_tag_runs_nothing(load, tmp_path):
    mark = tmp_path / "mark"
    with rejects(None, "os.system"):
        load(f"name: !!python/object/apply:os.system ['touch {mark}']\n")
    assert not mark.exists()


def test_the_tags_of_plain_values_are_allowed(load):
    config = load("name: !!str 7\nseed: !!int 3\ndropout: !!float 1e-3\ncompile: !!bool on")
    assert (config.name, config.seed, config.dropout, config.compile) == ("7", 3, 1e-3, True)


def test_the_version_of_yaml_is_allowed(load):
    assert load("%YAML 1.1\n---\nseed: 3\n").seed == 3


@pytest.mark.parametrize("name", NAMED_CONFIGS)
def test_a_written_configuration_reads_back_the_same(load, name):
    config = dataclasses.replace(
        load_config(find_config(name)),
        name="1e5",
        sample_prompt="off: 'x' \"y\"\n",
        optimizer=AdamWSettings(betas=(0.8, 0.99), eps=1e-9),
        schedule=ScheduleConfig(cycle_steps=123),
        data=DataConfig(train_path=("a", "null")),
    )
    assert load(config_to_yaml(config), base=None) == config
    assert yaml.safe_load(config_to_yaml(config))["optimizer"]["betas"] == [0.8, 0.99]


def test_another_optimizer_keeps_only_the_settings_of_the_base_that_it_has(load):
    sample = load_config(find_config("sample")).optimizer
    assert (sample.kind, sample.betas, sample.embedding_lr_scale) == ("muon", (0.9, 0.99), 5.0)
    assert load("optimizer: {kind: adamw}", base="sample").optimizer == AdamWSettings(
        betas=(0.9, 0.99)
    )
    plain = load("optimizer: {kind: sgd, nesterov: on}", base="sample").optimizer
    assert plain == SGDSettings(nesterov=True)
    again = load("optimizer: {kind: muon, head_lr_scale: 2}", base="sample").optimizer
    assert again == dataclasses.replace(sample, head_lr_scale=2.0)
    changed = load_config(find_config("speedrun"), {"optimizer.kind": "sgd"})
    assert changed.optimizer == SGDSettings()
    with rejects("optimizer.momentum", "adamw", place="a.yaml"):
        load("optimizer: {kind: adamw, momentum: 0.5}")


def test_a_configuration_that_could_not_be_read_back_is_not_written():
    data = DataConfig(train_path=tuple(f"/corpus/{number:050}.txt" for number in range(5_000)))
    with rejects(None, "262,144"):
        config_to_yaml(TrainConfig(data=data))


@pytest.mark.parametrize("name", ["tinystories", "owt"])
def test_named_configurations_have_the_hyperparameters_of_the_course(name):
    config = load_config(find_config(name))
    assert config.data.dataset == name
    vocab_size = {"tinystories": 10_000, "owt": 32_000}[name]
    assert config.model == ModelConfig(vocab_size=vocab_size)  # the defaults are the course's
    assert config.max_steps * config.batch_size * config.model.context_length == 327_680_000
    assert config.optimizer.max_grad_norm == 1.0


def test_speedrun_is_tinystories_with_every_switch_on():
    plain, fast, exportable = (
        load_config(find_config(name))
        for name in ("tinystories", "speedrun", "speedrun-exportable")
    )
    assert fast.data == plain.data
    assert (fast.max_steps, fast.batch_size) == (plain.max_steps, plain.batch_size)
    switches = {"qk_norm": True, "tied_embeddings": True, "zero_init": True, "logit_soft_cap": 30.0,
                "previous_token_heads": 2}  # fmt: skip
    assert fast.model == dataclasses.replace(plain.model, **switches)
    assert (plain.optimizer.kind, fast.optimizer.kind) == ("adamw", "muon")
    assert (plain.schedule.shape, fast.schedule.shape) == ("cosine", "linear")
    assert fast.schedule.min_learning_rate == 0
    model = dataclasses.replace(fast.model, logit_soft_cap=None)
    assert exportable == dataclasses.replace(fast, name="speedrun-exportable", model=model)


def test_a_missing_file_or_unknown_name_is_rejected(tmp_path):
    with rejects("config", "nowhere"):
        find_config("nowhere")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_config(tmp_path / "nowhere.yaml")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX FIFOs")
def test_a_fifo_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "c.yaml")
    with rejects(None, "c.yaml"):
        load_config(tmp_path / "c.yaml")


def test_paths_in_a_file_may_start_with_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME" if os.name != "nt" else "USERPROFILE", str(tmp_path))
    text = "data: {train_path: [~/a.txt, b~.txt], valid_path: ~/c, tokenizer: ~/t, data_dir: ~/d}"
    (tmp_path / "my.yaml").write_text(text)
    data = load_config(find_config("~/my.yaml")).data
    assert data.train_path == (str(tmp_path / "a.txt"), "b~.txt")
    found = [data.valid_path, data.tokenizer, data.data_dir]
    assert found == [str(tmp_path / name) for name in ("c", "t", "d")]


@pytest.mark.parametrize("text", ["model:\n  # d_model: 64\n", "model: 3\n"])
def test_a_section_without_options_is_called_a_section(tmp_path, text):
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with rejects("model", "section", "model.", place=path):
        load_config(path)
