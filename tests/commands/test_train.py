"""`python -m cs336_basics.train`: the files it writes, the lines it prints, and its errors."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest
import torch
import yaml

from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.tokenizer.files.token_files import open_token_file
from cs336_basics.training.learning_curves import plot_run
from tests.commands.small_run import assert_equal_runs, command
from tests.processes import run_python

main = command("train")


def test_a_run_on_the_sample_writes_all_files_and_prints_their_paths(tiny, capsys, monkeypatch):
    monkeypatch.setattr("cs336_basics.training.trainer.plot_run", plot_run)  # see conftest.py
    assert main(["--config", tiny, "--run-dir", "run"]) == 0
    out = capsys.readouterr().out
    run = RunDirectory("run")
    for file in (
        run.config,
        run.metrics,
        run.loss_plot,
        run.data / "sample_train.txt",
        run.data / "train.npy",
        run.data / "valid.npy",
        run.tokenizer / "tokenizer.json",
        run.tokenizer / "training.json",
        run.checkpoint(12),
        run.checkpoint(run.best().step),
        run.timings,
        run.sample(12),
    ):
        assert file.is_file(), file
    for path in (run.config, run.tokenizer, run.metrics, run.loss_plot, run.checkpoints):
        assert str(path) in out
    assert run.sample(12).read_text(encoding="utf-8").strip() in out
    assert "validation loss" in out
    valid = (run.data / "sample_valid.txt").stat().st_size
    metadata = open_token_file(run.data / "valid.npy").metadata
    assert metadata["bytes_per_token"] == valid / metadata["num_tokens"]


def test_the_option_of_a_missing_text_is_named(tiny, capsys):
    assert main(["--config", tiny, "--data.train-path", "nowhere.txt"]) == 2
    assert "error: --data.train-path 'nowhere.txt' does not exist" in capsys.readouterr().err


def test_the_passes_over_the_text_are_printed_and_many_are_pointed_out(tiny, capsys):
    Path("my.txt").write_text("Once upon a time there was a cat. " * 200)
    words = ["--config", tiny, "--max-steps", "1", "--sample-tokens", "0"]
    for size, is_many in (("4", False), ("2048", True)):
        again = ["--data.train-path", "my.txt", "--batch-size", size, "--run-dir", f"run{size}"]
        assert main([*words, *again]) == 0
        out = capsys.readouterr().out
        assert "passes over the training text" in out
        assert ("will be read" in out) is is_many


def test_the_suggested_commands_run_without_an_active_environment(tiny, capsys, monkeypatch):
    monkeypatch.setenv("PATH", "")
    Path("my.txt").write_text("Once upon a time there was a cat. " * 200)
    words = ["--config", tiny, "--max-steps", "1", "--sample-tokens", "0", "--run-dir", "run"]
    assert main(words) == 0
    lines = capsys.readouterr().out.split("What to try next:\n\n")[1].splitlines()
    for line in lines:
        interpreter, _, _, name, *options = shlex.split(line[22:])
        assert os.path.samefile(interpreter, sys.executable)
        if name != "playground":  # the playground serves until Ctrl-C
            small = [*words[:-1], "mine"] if name == "train" else []
            assert command(name)([*options, *small]) == 0
            own = capsys.readouterr().out
    assert [line.split(" -m ")[1].split()[1] for line in lines] == [
        "generate",
        "playground",
        "report",
        "train",
    ]
    assert "generate --run mine" in own
    assert "train --data" not in own  # it has just been trained on one's own text


def test_the_saved_configuration_repeats_the_run(tiny):
    assert main(["--config", tiny, "--run-dir", "a", "--seed", "3"]) == 0
    assert main(["--config", "a/config.yaml", "--run-dir", "b"]) == 0
    assert_equal_runs("a", "b")


def test_a_directory_with_other_files_is_rejected_and_unchanged(tiny, capsys):
    Path("run").mkdir()
    Path("run/thesis.tex").write_text("all my work")
    assert main(["--config", tiny, "--run-dir", "run"]) == 2
    error = capsys.readouterr().err
    assert "run is not empty" in error
    assert "--resume" in error
    assert os.listdir("run") == ["thesis.tex"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--data.train-path", "tiny.yaml", "--data.valid-path", "no.txt"], "no.txt"),
        (["--data.trainer", "magic"], "magic"),
        (["--data.pattern", "("], "("),
        (["--model.vocab-size", "256"], "256"),
        (["--model.context-length", "1000000"], "1,000,000"),
        (["--device", "cuda:77"], "cuda:77"),
        (["--data.train-path", "empty.txt"], "--data.train-path"),
        (["--run-dir", "empty.txt"], "empty.txt"),
    ],
)
def test_an_invalid_value_is_a_one_line_error(tiny, capsys, words, named):
    Path("empty.txt").touch()
    assert main(["--config", tiny, "--run-dir", "run", *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("cs336 train: error: ")
    assert named in error
    assert not Path("run").exists()


def test_more_processes_than_gpus_are_rejected(tiny, monkeypatch, capsys):
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert main(["--config", tiny, "--run-dir", "run", "--device", "cuda"]) == 2
    assert "pass --device cpu" in capsys.readouterr().err
    assert not Path("run").exists()


def test_a_model_larger_than_the_memory_leaves_no_run_directory(tiny, capsys):
    words = ["--config", tiny, "--run-dir", "run"]
    assert main([*words, "--model.d-ff", "100000000000000"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "out of memory" in error
    assert "a smaller model" in error
    assert not Path("run").exists()
    assert main([*words, "--max-steps", "1"]) == 0


def test_the_choices_of_the_fast_path_are_printed_and_saved(tiny, capsys):
    words = ["--config", tiny, "--run-dir", "run", "--optimizer.kind", "adamw", "--fast", "auto"]
    assert main(words) == 0
    out = capsys.readouterr().out
    for name in ("precision", "compile", "loss_chunks", "optimizer.fused"):
        assert f"fast: {name} " in out
    config = yaml.safe_load(Path("run/config.yaml").read_text())
    assert config["optimizer"]["fused"] is True
    assert config["products"] == "torch"
    assert main(["--resume", "run", "--max-steps", "13", "--schedule", "extend"]) == 0
    assert "fast: " not in capsys.readouterr().out
    assert yaml.safe_load(Path("run/config.yaml").read_text()) == {**config, "max_steps": 13}


def test_compiling_without_a_compiler_is_refused_before_the_run_exists(tiny, monkeypatch, capsys):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert main(["--config", tiny, "--run-dir", "run", "--compile"]) == 2
    error = capsys.readouterr().err
    assert "--compile must be false" in error
    assert "'no-such-compiler'" in error
    assert not Path("run").exists()


def test_a_resumed_run_may_compute_in_another_way_and_says_so(tiny, capsys):
    words = ["--config", tiny, "--run-dir", "run", "--optimizer.kind", "adamw"]
    assert main(words) == 0
    capsys.readouterr()
    more = ["--resume", "run", "--max-steps", "14", "--loss-chunks", "3", "--fast", "auto"]
    assert main(more) == 0
    out = capsys.readouterr().out
    assert "fast: loss_chunks 3: as requested" in out
    (line,) = [line for line in out.splitlines() if "only up to rounding" in line]
    for change in ("loss_chunks 2 became 3", "optimizer.fused False became True"):
        assert change in line
    config = yaml.safe_load(Path("run/config.yaml").read_text())
    assert (config["loss_chunks"], config["optimizer"]["fused"]) == (3, True)
    assert main(["--resume", "run", "--max-steps", "15"]) == 0
    assert "only up to rounding" not in capsys.readouterr().out


def test_a_run_starts_from_another_and_its_card_and_report_say_so(tiny, capsys):
    assert main(["--config", tiny, "--run-dir", "old"]) == 0
    capsys.readouterr()
    words = ["--config", tiny, "--run-dir", "new", "--init-from", "old", "--max-steps", "2"]
    assert main([*words, "--model.d-model", "32"]) == 2
    error = capsys.readouterr().err
    assert "--model.d-model must be 16" in error
    assert not Path("new").exists()
    assert main([*words, "--model.context-length", "8", "--seed", "1"]) == 0
    out = capsys.readouterr().out
    assert "starting from " in out
    assert "step 0: validation loss" in out
    config = yaml.safe_load(Path("new/config.yaml").read_text())
    assert config["init_from"] == str(Path("old").resolve())
    assert config["origin"]["step"] == 12
    assert config["model"]["context_length"] == 8
    digest = config["origin"]["weights"]
    assert command("export")(["--run", "new", "--to", "huggingface", "--output", "out"]) == 0
    assert f"| its weights, SHA-256 | {digest} |" in Path("out/README.md").read_text()
    assert command("report")(["--run", "new", "--output", "page.html"]) == 0
    assert digest in Path("page.html").read_text()
    assert command("estimate")([*words, "--no-measure"]) == 0
    assert "parameters" in capsys.readouterr().out


def test_a_closed_pipe_does_not_end_a_run(tiny, monkeypatch):
    # For example, `| head` closes the pipe early, and Ctrl-C also ends `| tee`.
    outputs = []
    for name in ("stdout", "stderr"):
        reader, writer = os.pipe()
        os.close(reader)
        outputs.append(os.fdopen(writer, "w"))
        monkeypatch.setattr(sys, name, outputs[-1])
    assert main(["--config", tiny, "--run-dir", "run"]) == 0
    assert RunDirectory("run").steps_saved()[-1] == 12
    assert main(["--resume", "run", "--max-steps", "1"]) == 2
    for output in outputs:
        output.close()  # raises no error, because the buffer is empty


def test_ctrl_c_before_the_first_step_prints_the_command_to_resume(tiny, monkeypatch, capsys):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("cs336_basics.commands._training.open_trainer", interrupted)
    assert main(["--config", tiny, "--run-dir", "run"]) == 130
    assert "interrupted; to resume: " in capsys.readouterr().err


def test_a_loss_curve_that_was_not_drawn_is_not_named(tiny, capsys):
    assert main(["--config", tiny, "--run-dir", "run", "--sample-tokens", "0"]) == 0  # conftest.py
    out = capsys.readouterr().out
    assert "metrics  " in out
    assert "loss curve" not in out


def test_an_interruption_while_numpy_is_imported_ends_the_command(tiny):
    code = """
import sys
class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "numpy.lib":
            sys.meta_path.remove(self)
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
from cs336_basics.__main__ import main
sys.exit(main(["train", "--config", sys.argv[1], "--run-dir", "run"]))
"""
    done = run_python(code, tiny, check=False)
    assert (done.returncode, done.stderr) == (130, "cs336 train: interrupted\n")
    assert not Path("run").exists()
