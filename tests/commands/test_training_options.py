"""The options of `train`. The command line overrides the file, its base and the defaults."""

from __future__ import annotations

import dataclasses

import pytest

from cs336_basics.__main__ import main
from cs336_basics._support.errors import InputError
from cs336_basics.commands.train import COMMAND
from cs336_basics.model import ModelConfig
from cs336_basics.training.config import ScheduleConfig, TrainConfig
from cs336_basics.training.config_files import config_to_yaml, find_config, load_config
from tests.errors import rejects


def config_of(*words):
    return COMMAND.read(words).config


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_command_line_overrides_the_file_and_the_file_the_defaults(tmp_path):
    file = write(tmp_path / "a.yaml", "batch_size: 7\nmax_steps: 11\nmodel:\n  d_model: 64\n")
    config = config_of("--max-steps", "13", "--config", file)
    assert (config.batch_size, config.max_steps, config.model.d_model) == (7, 13, 64)
    base = load_config(find_config("sample"))
    assert config.eval_every == base.eval_every != TrainConfig().eval_every
    assert config.model.d_ff == base.model.d_ff != ModelConfig().d_ff


def test_print_config_shows_each_value_with_its_origin_and_trains_nothing(tmp_path, capsys):
    file = write(tmp_path / "a.yaml", "base: owt\nmodel:\n  d_model: 64\n")
    run = tmp_path / "run"
    words = ["train", "--config", file, "--max-steps", "13", "--run-dir", str(run)]
    assert main([*words, "--print-config"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    for line in (
        "max_steps: 13 # --max-steps",
        f"d_model: 64 # {file}, line 3",
        "vocab_size: 32000 # owt",
        "seed: 0 # default",
    ):
        assert line in lines
    assert not run.exists()


def test_option_names_may_use_dashes_or_underscores():
    words = ["--model.d_model=64", "--max_steps", "3", "--model.num-heads", "4"]
    config = config_of(*words, "--data.train_path=my_file-a.txt", "--name", "my_run-a")
    assert (config.model.d_model, config.max_steps, config.model.num_heads) == (64, 3, 4)
    assert (config.data.train_path, config.name) == ("my_file-a.txt", "my_run-a")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--compile"], True),
        (["--compile", "--max-steps", "5"], True),
        (["--compile", "false"], False),
        (["--compile=true"], True),
        ([], False),
    ],
)
def test_a_boolean_option_may_have_a_value(words, expected):
    assert config_of(*words).compile is expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--data.train-path", "a"], "a"),
        (["--data.train-path", "a", "b*", "--max-steps", "3"], ("a", "b*")),
        (["--data.train-path", "a", "b", "--data.train_path=c"], ("a", "b", "c")),
        (["--data.train-path", "[a]", "{b}"], ("[a]", "{b}")),
    ],
)
def test_an_option_with_several_values_may_be_repeated(tmp_path, words, expected):
    config = config_of(*words)
    assert config.data.train_path == expected
    saved = write(tmp_path / "config.yaml", config_to_yaml(config))
    assert config_of("--config", saved) == config


def test_null_unsets_a_value_of_the_file(tmp_path):
    file = write(tmp_path / "a.yaml", "num_workers: 3\ndata: {tokenizer: x}\n")
    config = config_of("--config", file, "--num-workers", "null", "--data.tokenizer", "null")
    assert (config.num_workers, config.data.tokenizer) == (None, None)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--d-model", "3"], "'--model.d-model'"),
        (["--optimizer.betas", "0.9", "1.0"], "['0.9', '1.0']"),
        (["--optimizer.kind", "lion"], "'lion'"),
        (["--optimizer.kind", "sgd", "--optimizer.eps", "1"], "optimizer.eps"),
        (["--resume-from", "x.pt"], "--resume"),
        (["--skip-damaged"], "--resume"),
        (["--schedule", "extend"], "--resume"),
        (["--resume", "r", "--resume-from", "x.pt", "--skip-damaged"], "--skip-damaged"),
    ],
)
def test_an_invalid_command_line_is_a_one_line_error(words, named):
    with pytest.raises(InputError) as error:
        config_of(*words)
    assert named in str(error.value)
    assert "\n" not in str(error.value)


@pytest.fixture
def run_dir(tmp_path):
    write(tmp_path / "config.yaml", config_to_yaml(TrainConfig(seed=9)))
    return str(tmp_path)


def test_resume_uses_the_configuration_of_the_run(run_dir):
    command = COMMAND.read(["--resume", run_dir, "--max-steps", "2000"])
    assert str(command.options.resume) == run_dir
    assert command.given == ["max_steps"]
    schedule = ScheduleConfig(cycle_steps=TrainConfig().max_steps)
    expected = dataclasses.replace(TrainConfig(), seed=9, max_steps=2000, schedule=schedule)
    assert command.config == expected
    assert command.origins["schedule.cycle_steps"] == "--schedule continue"
    assert COMMAND.read(["--resume", run_dir]).config == TrainConfig(seed=9)
    moved = COMMAND.read(["--resume", run_dir, "--data.train-path", "moved.txt"])
    assert moved.config.data.train_path == "moved.txt"


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        (["--seed", "1"], "seed"),
        (["--model.d_model=64"], "model.d_model"),
        (["--batch_size", "1"], "batch_size"),
        (["--config", "owt"], "resume"),
        (["--run-dir", "x"], "resume"),
    ],
)
def test_resume_rejects_options_that_would_change_the_run(run_dir, words, argument):
    with rejects(argument):
        COMMAND.read(["--resume", run_dir, *words])


@pytest.mark.parametrize("words", [["--config=owt"], ["--config", "owt"], ["--resume", "RUN"]])
def test_help_shows_the_values_of_the_file_as_defaults(tmp_path, words):
    owt = load_config(find_config("owt"))
    write(tmp_path / "config.yaml", config_to_yaml(owt))
    words = [word.replace("RUN", str(tmp_path)) for word in words]
    page = " ".join(COMMAND.help_page([*words, "--help-all"]).split())
    assert f"optimizer steps in the whole run (default: {owt.max_steps})" in page
    assert f"(default: {owt.model.vocab_size})" in page
    assert "as [beta1, beta2] (default: {} {})".format(*owt.optimizer.betas) in page
    sample = load_config(find_config("sample"))
    assert f"(default: {sample.max_steps})" in COMMAND.help_page(["--help"])


def test_help_says_which_optimizer_a_setting_belongs_to():
    page = " ".join(COMMAND.help_page(["--help-all"]).split())
    assert "--optimizer.kind adamw|muon|sgd" in page
    assert "adamw: AdamW for all weights; muon: Muon for matrices" in page
    assert "with sgd, use Nesterov momentum" in page
    assert "with adamw or muon, added to the denominator" in page
    assert "maximum L2 norm of the gradients (default: 1.0)" in page


def test_help_shows_the_common_fields_only():
    page = COMMAND.help_page(["--help"])
    for name in ("--name", "--max-steps", "--batch-size", "--fast", "--device",
                 "--data.train-path", "--data.tokenizer", "--config", "--resume"):  # fmt: skip
        assert f"{name} " in page
    assert "--optimizer" not in page
    assert "--seed" not in page
