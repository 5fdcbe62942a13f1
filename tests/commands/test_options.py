from __future__ import annotations

import dataclasses

import pytest
import yaml

from cs336_basics.commands import compare, encode, prune, tokens, train_bpe
from cs336_basics.commands._options import MODEL_HELP, TrainParser, parse_command_line
from cs336_basics.commands._parser import UsageError
from cs336_basics.model import ModelConfig
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.config_files import (
    NAMED_CONFIGS,
    ConfigError,
    config_keys,
    config_to_yaml,
    find_config,
    load_config,
)

NAMES_COMPARED = ("tinystories", "speedrun")


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_command_line_overrides_the_file_and_the_file_the_defaults(tmp_path):
    file = write(tmp_path / "a.yaml", "batch_size: 7\nmax_steps: 11\nmodel:\n  d_model: 64\n")
    config = parse_command_line(["--config", file, "--max-steps", "13"]).config
    assert (config.batch_size, config.max_steps, config.model.d_model) == (7, 13, 64)
    assert config.eval_every == TrainConfig().eval_every
    assert config.model.d_ff == ModelConfig().d_ff


def test_an_option_overrides_the_file_in_any_order(tmp_path):
    file = write(tmp_path / "a.yaml", "max_steps: 11\n")
    assert parse_command_line(["--max-steps", "13", "--config", file]).config.max_steps == 13


@pytest.mark.parametrize(
    "words",
    [
        ["--model.d-model", "64", "--max-steps", "3"],
        ["--model.d_model", "64", "--max_steps", "3"],
        ["--model.d_model=64", "--max-steps=3"],
    ],
)
def test_names_may_have_dashes_or_underscores(words):
    config = parse_command_line([*words, "--model.num-heads", "4"]).config
    assert (config.model.d_model, config.max_steps) == (64, 3)


def test_underscores_in_values_are_kept():
    words = ["--data.train_path=my_file-a.txt", "--name", "my_run-a"]
    config = parse_command_line(words).config
    assert config.data.train_path == "my_file-a.txt"
    assert config.name == "my_run-a"


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
def test_compile_is_a_switch(words, expected):
    assert parse_command_line(words).config.compile is expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--data.train-path", "a"], "a"),
        (["--data.train-path", "a", "b*", "--max-steps", "3"], ("a", "b*")),
        (["--data.train-path", "a", "b", "--data.train_path=c"], ("a", "b", "c")),
        (["--data.train-path", "[a]", "{b}"], ("[a]", "{b}")),
        (["--data.train-path", "null"], None),
    ],
)
def test_several_paths_may_be_given_together_or_one_by_one(tmp_path, words, expected):
    config = parse_command_line(words).config
    assert config.data.train_path == expected
    saved = write(tmp_path / "config.yaml", config_to_yaml(config))
    assert parse_command_line(["--config", saved]).config == config


def test_no_argument_means_the_sample_configuration():
    assert parse_command_line([]).config == load_config(find_config("sample"))


@pytest.mark.parametrize("name", ["tinystories", "owt"])
def test_named_configurations_carry_the_hyperparameters_of_the_course(name):
    config = parse_command_line(["--config", name]).config
    assert config.data.dataset == name
    assert config.model == ModelConfig(
        vocab_size={"tinystories": 10_000, "owt": 32_000}[name],
        context_length=256,
        d_model=512,
        num_layers=4,
        num_heads=16,
        d_ff=1344,
        rope_theta=10_000.0,
    )
    tokens = config.max_steps * config.batch_size * config.model.context_length
    assert tokens == 327_680_000
    assert config.optimizer.max_grad_norm == 1.0


def test_speedrun_is_tinystories_with_every_switch_on():
    plain, fast = (parse_command_line(["--config", name]).config for name in NAMES_COMPARED)
    assert fast.data == plain.data
    assert (fast.max_steps, fast.batch_size) == (plain.max_steps, plain.batch_size)
    switches = {"qk_norm": True, "tied_embeddings": True, "zero_init": True, "logit_soft_cap": 30.0}
    assert fast.model == dataclasses.replace(plain.model, **switches)
    assert all(not getattr(plain.model, name) for name in switches)
    assert (plain.optimizer.kind, fast.optimizer.kind) == ("adamw", "muon")
    assert (plain.schedule.shape, fast.schedule.shape) == ("cosine", "linear")
    assert fast.schedule.min_learning_rate == 0


def test_speedrun_exportable_is_speedrun_without_the_soft_cap():
    fast, exportable = (
        parse_command_line(["--config", name]).config
        for name in ("speedrun", "speedrun-exportable")
    )
    model = dataclasses.replace(fast.model, logit_soft_cap=None)
    assert exportable == dataclasses.replace(fast, name="speedrun-exportable", model=model)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("max_step: 5\n", ["'max_step'", "max_steps"]),
        ("model:\n  d_modle: 5\n", ["'model.d_modle'", "model.d_model"]),
        ("d_model: 5\n", ["'d_model'", "model.d_model"]),
        ("max_steps: many\n", ["max_steps", "many", "int"]),
        ("max_steps: 1.5\n", ["max_steps", "1.5"]),
        ("max_steps: null\n", ["max_steps"]),
        ("compile: 3\n", ["compile", "3"]),
        ("precision: float64\n", ["precision", "float64"]),
        ("model:\n  d_model: wide\n", ["model.d_model", "wide"]),
        ("model: 5\n", ["model", "5"]),
        ("optimizer:\n  betas: [1, 2, 3]\n", ["optimizer.betas"]),
        ("batch_size: 0\n", ["batch_size", "0"]),
        ("resume: here\n", ["resume"]),
        ("- 5\n", ["a.yaml"]),
        ("a: [\n", ["a.yaml"]),
    ],
)
def test_an_error_in_a_file_is_named_on_one_line(tmp_path, text, named):
    with pytest.raises(ConfigError) as error:
        parse_command_line(["--config", write(tmp_path / "a.yaml", text)])
    message = str(error.value)
    assert "\n" not in message
    for part in named:
        assert part in message


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--max-stpes", "3"], ["--max-stpes", "--max-steps"]),
        (["--max", "3"], ["max"]),  # abbreviations are not guessed
        (["--d-model", "3"], ["--model.d-model"]),
        (["--max-steps", "x"], ["max_steps", "x"]),
        (["--seed", "-1"], ["seed", "-1"]),
        (["--batch-size", "10", "--accumulation", "3"], ["accumulation", "3", "10"]),
        (["--schedule.max-learning-rate", "0"], ["schedule.max_learning_rate"]),
        (["--schedule.max-learning-rate", "nan"], ["schedule.max_learning_rate"]),
        (["--schedule.min-learning-rate", "1"], ["schedule.min_learning_rate"]),
        (["--schedule.warmup-fraction", "1"], ["schedule.warmup_fraction"]),
        (["--optimizer.betas", "[0.9, 1.0]"], ["optimizer.betas"]),
        (["--optimizer.kind", "sdg"], ["optimizer.kind", "sdg", "adamw, muon, sgd"]),
        (["--optimizer.nesterov", "--optimizer.momentum", "0"], ["optimizer.nesterov"]),
        (["--optimizer.momentum", "1"], ["optimizer.momentum", "1"]),
        (["--optimizer.head-lr-scale", "-1"], ["optimizer.head_lr_scale", "-1"]),
        (["--optimizer.max-grad-norm", "inf"], ["max_grad_norm is inf: it must be a finite numb"]),
        (["--schedule.shape", "square"], ["schedule.shape", "square"]),
        (["--schedule.decay-fraction", "1.5"], ["schedule.decay_fraction", "1.5"]),
        (["--model.logit-soft-cap", "0"], ["logit_soft_cap", "0"]),
        (["--model.qk-norm", "3"], ["model.qk_norm", "3"]),
        (["--num-workers", "0"], ["num_workers", "0"]),
        (["--num-workers", "99999999999999999999"], ["num_workers", "64 bits"]),
        (["--num-workers", "5000"], ["num_workers", "4096"]),
        (["--sample-top-p", "0"], ["sample_top_p", "0"]),
        (["--data.valid-fraction", "1"], ["data.valid_fraction"]),
        (["--data.valid-path", "x"], ["data.valid_path", "data.train_path"]),
        (["--model.num-heads", "7"], ["num_heads", "7"]),
        (["--name", "a/b"], ["name", "a/b"]),
        (["--config", "nowhere.yaml"], ["nowhere.yaml", *NAMED_CONFIGS]),
        (["--config"], ["--config"]),
        (["stray"], ["stray"]),
        (["--resume-from", "x.pt"], ["--resume"]),
        (["--skip-damaged"], ["--resume"]),
    ],
)
def test_an_error_on_the_command_line_is_named_on_one_line(words, named):
    with pytest.raises((ConfigError, UsageError)) as error:
        parse_command_line(words)
    message = str(error.value)
    assert "\n" not in message
    for part in named:
        assert part in message


def test_a_file_is_data_and_runs_nothing(tmp_path):
    mark = tmp_path / "mark"
    text = f"name: !!python/object/apply:os.system ['touch {mark}']\n"
    with pytest.raises(ConfigError):
        parse_command_line(["--config", write(tmp_path / "a.yaml", text)])
    assert not mark.exists()


@pytest.mark.parametrize("name", NAMED_CONFIGS)
def test_the_saved_configuration_reads_back_the_same(tmp_path, name):
    words = ["--config", name, "--seed", "5", "--optimizer.betas", "[0.8, 0.99]"]
    words += ["--schedule.cycle-steps", "123", "--optimizer.eps", "1e-9", "--num-workers", "2"]
    config = parse_command_line(words).config
    saved = write(tmp_path / "config.yaml", config_to_yaml(config))
    assert parse_command_line(["--config", saved]).config == config
    assert yaml.safe_load(config_to_yaml(config))["optimizer"]["betas"] == [0.8, 0.99]


class TestResume:
    @pytest.fixture
    def run_dir(self, tmp_path):
        config = dataclasses.replace(TrainConfig(), seed=9)
        write(tmp_path / "config.yaml", config_to_yaml(config))
        return tmp_path

    def test_resume_uses_the_configuration_of_the_run(self, run_dir):
        command = parse_command_line(["--resume", str(run_dir), "--max-steps", "2000"])
        assert command.resume == run_dir
        assert command.config == dataclasses.replace(TrainConfig(), seed=9, max_steps=2000)

    @pytest.mark.parametrize(
        "words", [["--seed", "1"], ["--model.d_model=64"], ["--batch_size", "1"]]
    )
    def test_resume_refuses_options_that_would_change_the_run(self, run_dir, words):
        with pytest.raises(ConfigError, match="cannot change"):
            parse_command_line(["--resume", str(run_dir), *words])

    @pytest.mark.parametrize("words", [["--config", "owt"], ["--run-dir", "x"]])
    def test_resume_refuses_another_configuration_or_directory(self, run_dir, words):
        with pytest.raises(ConfigError, match="--resume"):
            parse_command_line(["--resume", str(run_dir), *words])

    def test_resume_names_a_directory_without_a_run(self, tmp_path):
        with pytest.raises(ConfigError, match="not a run directory"):
            parse_command_line(["--resume", str(tmp_path / "nothing")])


def test_help_explains_every_option_and_shows_the_values_of_the_file():
    page = TrainParser("train", "", []).requested_help(["--config", "owt", "--help-all"])
    options = " ".join(page.split()).split(" --")
    for key in config_keys():
        name = key.replace("_", "-")
        (text,) = (part for part in options if part.split()[0] == name)
        assert len(text.partition("(default")[0].split()) > 3, f"{name} is not explained"
    (vocab_size,) = (part for part in options if part.startswith("model.vocab-size"))
    assert vocab_size.endswith("(default: 32000)")


@pytest.mark.parametrize("words", [["--config=owt"], ["--config", "owt"], ["--resume=RUN"]])
def test_help_shows_the_values_of_a_file_that_is_named_with_an_equals_sign(tmp_path, words):
    (tmp_path / "config.yaml").write_bytes(find_config("owt").read_bytes())
    words = [word.replace("RUN", str(tmp_path)) for word in words]
    page = TrainParser("train", "", []).requested_help([*words, "--help"])
    steps = load_config(find_config("owt")).max_steps
    assert steps != TrainConfig().max_steps
    assert f"(default: {steps})" in page
    with pytest.raises(ConfigError, match="nowhere"):
        TrainParser("train", "", []).requested_help(["--config=nowhere", "--help"])


def test_help_without_a_configuration_shows_the_values_of_the_sample():
    page = TrainParser("train", "", []).requested_help(["--help-all"])
    options = " ".join(page.split()).split(" --")
    for name, key in config_keys(load_config(find_config("sample"))).items():
        if type(key.default) in (int, float):
            (text,) = (part for part in options if part.split()[0] == name.replace("_", "-"))
            assert f"(default: {key.default})" in text


def test_every_field_of_the_model_has_a_help_line():
    assert set(MODEL_HELP) == {field.name for field in dataclasses.fields(ModelConfig)}


@pytest.mark.parametrize("command", [compare, encode, prune, tokens, train_bpe])
def test_a_repeated_option_for_files_names_further_ones(command):
    parser = command.build_parser()
    several = [o for o in parser.options.values() if o.action.nargs == "+"]
    assert "--input" in [option.name for option in several]
    for option in several:
        assert type(option.action).__name__ == "_ExtendAction", option.name


@pytest.mark.parametrize("command", [prune, train_bpe])
def test_zero_is_a_value_and_not_a_missing_one(capsys, tmp_path, command):
    words = ["--input", write(tmp_path / "a.txt", "text"), "--output", str(tmp_path / "new")]
    if command is prune:
        Tokenizer({byte: bytes([byte]) for byte in range(256)}, []).save(tmp_path / "old")
        words += ["--tokenizer", str(tmp_path / "old")]
    assert command.main([*words, "--vocab-size", "0"]) == 2
    assert "--vocab-size is 0: it must be" in capsys.readouterr().err
