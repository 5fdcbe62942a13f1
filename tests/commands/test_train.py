"""`python -m cs336_basics.train` as users run it: whole runs, refusals, kills."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml

import cs336_basics.commands.train as train_module
from cs336_basics.bpe import TRAINERS
from cs336_basics.commands._options import CommandLine
from cs336_basics.commands.train import main
from cs336_basics.datasets import write_sample
from cs336_basics.runs.run_dir import RunDirectory
from cs336_basics.tokenizer import Tokenizer, encode_file
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.distributed import World
from cs336_basics.training.trainer import Trainer

TINY = """
name: tiny
max_steps: 12
batch_size: 4
device: cpu
num_workers: 1
log_every: 2
eval_every: 6
eval_batches: 2
checkpoint_every: 4
keep_checkpoints: 3
sample_tokens: 10
data: {sample_bytes: 60000, trainer: heap}
model: {vocab_size: 300, context_length: 16, d_model: 16, num_layers: 1, num_heads: 2, d_ff: 32}
"""
COMMAND = [sys.executable, "-m", "cs336_basics.train"]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The configuration of a run that takes a second; runs go below the current directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY)
    return "tiny.yaml"


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


pytestmark = pytest.mark.usefixtures("threads")


def environment():
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def assert_equal_runs(left, right):
    """All files have the same bytes, but those that say when and how fast."""
    contents = []
    for path in (Path(left), Path(right)):
        files = [file for file in path.rglob("*") if file.is_file()]
        contents.append({str(file.relative_to(path)): file for file in files})
    # What is in data/*.json is the path of the run, and when its stages were made.
    free = {"timings.jsonl", ".lock", "loss.png"}
    free |= {f"data/{name}.json" for name in ("stages", "train", "valid")}
    names = [set(files) - free for files in contents]
    assert names[0] == names[1]
    for name in sorted(names[0]):
        assert contents[0][name].read_bytes() == contents[1][name].read_bytes(), name


def test_makes_everything_from_nothing_and_says_where_it_lies(tiny, capsys):
    assert main(["--config", tiny, "--run-dir", "run"]) == 0
    out = capsys.readouterr().out
    run = RunDirectory("run")
    for file in (
        run.config,
        run.metrics,
        run.loss_plot,
        run.data / "sample_train.txt",
        run.data / "train.npy",
        run.data / "valid.json",
        run.tokenizer / "vocab.json",
        run.tokenizer / "merges.txt",
        run.tokenizer / "metadata.json",
        run.checkpoint(12) / "model.safetensors",
        run.best_checkpoint / "manifest.json",
        run.timings,
        run.sample(12),
    ):
        assert file.is_file(), file
    for path in (run.config, run.tokenizer, run.metrics, run.loss_plot, run.checkpoints):
        assert str(path) in out
    assert run.sample(12).read_text(encoding="utf-8").strip() in out
    assert "validation loss" in out
    valid = (run.data / "sample_valid.txt").stat().st_size
    metadata = json.loads((run.data / "valid.json").read_text())
    assert metadata["bytes_per_token"] == valid / metadata["num_tokens"]


def test_runs_go_into_a_directory_with_name_and_date(tiny):
    assert main(["--config", tiny, "--max-steps", "1"]) == 0
    (run,) = Path("runs").iterdir()
    assert re.fullmatch(r"tiny-\d{8}-\d{6}", run.name)


def test_the_saved_configuration_repeats_the_run(tiny):
    assert main(["--config", tiny, "--run-dir", "a", "--seed", "3"]) == 0
    assert main(["--config", "a/config.yaml", "--run-dir", "b"]) == 0
    assert_equal_runs("a", "b")


def test_a_directory_in_use_is_refused_and_left_alone(tiny, capsys):
    Path("run").mkdir()
    Path("run/thesis.tex").write_text("all my work")
    assert main(["--config", tiny, "--run-dir", "run"]) == 2
    error = capsys.readouterr().err
    assert "run" in error
    assert "--resume" in error
    assert os.listdir("run") == ["thesis.tex"]


def test_what_was_killed_before_it_had_a_configuration_starts_again(tiny):
    Path("run").mkdir()
    Path("run/.config.yaml.abcd_123.tmp").write_text("name: ti")
    assert main(["--config", tiny, "--run-dir", "run", "--max-steps", "1"]) == 0
    assert not list(Path("run").glob(".*.tmp"))


def test_a_missing_corpus_is_answered_with_the_command_that_fetches_it(tiny, capsys):
    words = ["--config", "tinystories", "--run-dir", "run", "--data.data-dir", "nowhere"]
    assert main(words) == 2
    assert "python -m cs336_basics download tinystories" in capsys.readouterr().err
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--max-stpes", "5"], "max_steps"),
        (["--max-steps", "soon"], "soon"),
        (["--data.train-path", "nothing.txt"], "nothing.txt"),
        (["--data.train-path", "tiny.yaml", "--data.valid-path", "no.txt"], "no.txt"),
        (["--data.tokenizer", "nothing"], "nothing"),
        (["--data.trainer", "magic"], "magic"),
        (["--data.pattern", "("], "("),
        (["--model.vocab-size", "100"], "100"),
        (["--model.context-length", "1000000"], "1,000,000"),
        (["--device", "cuda:77"], "cuda:77"),
        (["--data.train-path", "."], "that is a directory"),
        (["--data.train-path", "empty.txt"], "the file is empty"),
        (["--run-dir", "empty.txt"], "empty.txt is a file"),
        (["--model.d-ff", "100000000000000"], "out of memory"),
    ],
)
def test_what_cannot_be_used_is_named_on_one_line(tiny, capsys, words, named):
    Path("empty.txt").touch()
    assert main(["--config", tiny, "--run-dir", "run", *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("error: ")
    assert named in error


def test_more_processes_than_gpus_are_a_command_that_cannot_be_used(tiny, monkeypatch, capsys):
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert main(["--config", tiny, "--run-dir", "run", "--device", "cuda"]) == 2
    assert "a smaller --nproc-per-node, or --device cpu" in capsys.readouterr().err
    assert not Path("run").exists()


def test_a_wrong_option_ends_the_process_with_2_and_no_traceback(tmp_path):
    done = subprocess.run(
        [*COMMAND, "--learning-rat", "3"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(),
        timeout=120,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "learning_rat" in done.stderr
    assert not list(tmp_path.iterdir())


def test_where_memory_runs_out_the_way_on_is_said(tiny, monkeypatch, capsys):
    def fit(self):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0 ...")

    monkeypatch.setattr(Trainer, "fit", fit)
    assert main(["--config", tiny, "--run-dir", "run"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "(CUDA out of memory. Tried to allocate 2.00 GiB.)" in error
    assert "a larger --accumulation (now 1; a divisor of batch_size 4)" in error
    assert "python -m cs336_basics.train --resume run --accumulation N" in error


def test_where_memory_runs_out_each_process_has_its_part_of_the_batch(
    tmp_path, monkeypatch, capsys
):
    class Full:
        config, step = TrainConfig(batch_size=12, accumulation=2), 0

        def fit(self):
            raise MemoryError

    monkeypatch.setattr(train_module, "_prepare", lambda *_: Full())
    command = CommandLine(Full.config, run_dir=None, resume=None, resume_from=None)
    world = World(rank=1, size=3)
    assert train_module._train(command, RunDirectory(tmp_path), world) == 1
    error = capsys.readouterr().err
    assert "(now 2; a divisor of 4, the part of each process)" in error
    assert "torchrun --nproc-per-node 3 -m cs336_basics.train" in error


@pytest.mark.parametrize(
    ("file", "damage", "named"),
    [
        ("metrics.jsonl", lambda text: text.replace('"step"', '"stp"', 1), "line 1 is of no step"),
        ("timings.jsonl", lambda text: "[]\n" + text, "line 1 is of no step"),
        ("metrics.jsonl", lambda text: text.replace("{", "", 1), "line 1 is not JSON"),
        ("data/stages.json", lambda text: text[:-4], "stages.json is damaged: remove it"),
        ("data/stages.json", lambda text: "3", "stages.json is damaged: remove it"),
    ],
)
def test_a_damaged_file_of_the_run_is_named(tiny, capsys, file, damage, named):
    assert main(["--config", tiny, "--run-dir", "run", "--max-steps", "2"]) == 0
    path = Path("run") / file
    path.write_text(damage(path.read_text()))
    assert main(["--resume", "run", "--max-steps", "3"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert named in error


def test_the_fast_path_says_what_it_chose_and_the_run_keeps_to_it(tiny, capsys):
    assert main(["--config", tiny, "--run-dir", "run", "--fast", "auto"]) == 0
    out = capsys.readouterr().out
    for name in ("precision", "compile", "loss_chunks", "fused_optimizer"):
        assert f"fast: {name} " in out
    config = yaml.safe_load(Path("run/config.yaml").read_text())
    assert config["fast"] == "off"
    assert config["fused_optimizer"] is True
    assert main(["--resume", "run", "--max-steps", "13"]) == 0
    assert "fast: " not in capsys.readouterr().out
    assert yaml.safe_load(Path("run/config.yaml").read_text()) == {**config, "max_steps": 13}


def test_the_fast_path_leaves_what_the_command_line_names(tiny, capsys):
    words = ["--fast", "auto", "--loss-chunks=3", "--fused-optimizer", "false"]
    assert main(["--config", tiny, "--run-dir", "run", *words]) == 0
    assert "fast: loss_chunks 3: as it was asked for" in capsys.readouterr().out
    config = yaml.safe_load(Path("run/config.yaml").read_text())
    assert (config["loss_chunks"], config["fused_optimizer"]) == (3, False)


def test_ctrl_c_before_there_is_a_run(tiny, monkeypatch, capsys):
    def interrupted(_config):
        raise KeyboardInterrupt

    monkeypatch.setattr(train_module, "check_sources", interrupted)
    assert main(["--config", tiny, "--run-dir", "run"]) == 130
    assert capsys.readouterr().err == "stopped before the run began\n"


def test_a_reader_that_leaves_ends_no_run(tiny, monkeypatch):
    # As with `| head`, or `| tee` after a Ctrl-C, which ends tee as well.
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
        output.close()  # and nothing is left in them that could not be written


def test_metrics_go_to_a_logger_too(tiny, monkeypatch):
    rows = []

    class Noted:
        def log(self, row):
            rows.append(row)

        def close(self):
            rows.append("closed")

    monkeypatch.setattr("cs336_basics.commands.train.open_loggers", lambda *_: [Noted()])
    assert main(["--config", tiny, "--run-dir", "run", "--log-to", "wandb"]) == 0
    assert rows.pop() == "closed"
    assert rows == RunDirectory("run").read_metrics()


def test_a_logger_that_is_not_installed_is_named(tiny, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "trackio", None)
    assert main(["--config", tiny, "--run-dir", "run", "--log-to", "trackio"]) == 2
    assert "pip install 'cs336-basics[trackio]'" in capsys.readouterr().err


class TestOwnText:
    @pytest.fixture
    def text(self, tiny):
        write_sample("my.txt", 60_000, seed=5)
        return "my.txt"

    def test_the_last_documents_are_held_out(self, tiny, text):
        words = ["--data.train-path", text, "--data.valid-fraction", "0.1", "--run-dir", "run"]
        assert main(["--config", tiny, *words]) == 0
        train, valid = (Path(f"run/data/{split}.txt").read_bytes() for split in ("train", "valid"))
        whole = Path(text).read_bytes()
        assert train + valid == whole
        assert train.endswith(b"<|endoftext|>")
        assert 0.05 < len(valid) / len(whole) < 0.1

    def test_a_single_document_is_cut_between_words(self, tiny):
        Path("one.txt").write_text("the quick brown fox jumps over the lazy dog " * 400)
        words = ["--data.train-path", "one.txt", "--run-dir", "run", "--model.vocab-size", "260"]
        assert main(["--config", tiny, *words]) == 0
        train = Path("run/data/train.txt").read_text()
        assert train.split(" ")[-1] in {
            "the",
            "quick",
            "brown",
            "fox",
            "jumps",
            "over",
            "lazy",
            "dog",
        }

    def test_text_without_a_place_to_cut_is_refused(self, tiny, capsys):
        Path("one.txt").write_text("a" * 5000)
        assert main(["--config", tiny, "--data.train-path", "one.txt", "--run-dir", "run"]) == 2
        assert "data.valid_path" in capsys.readouterr().err

    def test_with_a_validation_text_and_a_finished_tokenizer(self, tiny, text):
        write_sample("valid.txt", 5_000, seed=6)
        vocab, merges = TRAINERS["heap"](num_workers=1).train(text, 290, ["<|endoftext|>"])
        tokenizer = Tokenizer(vocab, merges, ["<|endoftext|>"])
        tokenizer.save("tok")
        words = ["--data.train-path", text, "--data.valid-path", "valid.txt"]
        words += ["--data.tokenizer", "tok", "--run-dir", "run"]
        assert main(["--config", tiny, *words]) == 0
        assert Tokenizer.from_directory("run/tokenizer").hash() == tokenizer.hash()
        metadata = json.loads(Path("run/data/valid.json").read_text())
        assert metadata["num_bytes"] == Path("valid.txt").stat().st_size

    @pytest.fixture
    def token_files(self, tiny, text):
        vocab, merges = TRAINERS["heap"](num_workers=1).train(text, 290, ["<|endoftext|>"])
        tokenizer = Tokenizer(vocab, merges, ["<|endoftext|>"])
        tokenizer.save("tok")
        encode_file(tokenizer, text, "tokens.npy", num_workers=1)
        return ["--data.train-path", "tokens.npy", "--data.valid-path", "tokens.npy"]

    def test_token_files_are_used_as_they_are(self, tiny, token_files):
        words = [*token_files, "--data.tokenizer", "tok", "--run-dir", "run"]
        assert main(["--config", tiny, *words]) == 0
        assert not list(Path("run/data").glob("*.npy"))

    def test_token_files_of_another_tokenizer_are_refused(self, tiny, token_files, capsys):
        vocab, merges = TRAINERS["heap"](num_workers=1).train("my.txt", 280, ["<|endoftext|>"])
        Tokenizer(vocab, merges, ["<|endoftext|>"]).save("other")
        words = [*token_files, "--data.tokenizer", "other", "--run-dir", "run"]
        assert main(["--config", tiny, *words]) == 2
        assert "tokens.npy" in capsys.readouterr().err
        assert not Path("run/checkpoints").exists()

    def test_token_files_without_their_tokenizer_are_refused(self, tiny, token_files, capsys):
        assert main(["--config", tiny, *token_files, "--run-dir", "run"]) == 2
        assert "data.tokenizer" in capsys.readouterr().err

    def test_the_vocabulary_of_the_model_follows_the_tokenizer(self, tiny, token_files):
        words = [*token_files, "--data.tokenizer", "tok", "--model.vocab-size", "5000"]
        assert main(["--config", tiny, *words, "--run-dir", "run"]) == 0
        assert yaml.safe_load(Path("run/config.yaml").read_text())["model"]["vocab_size"] == 290

    def test_a_text_with_few_merges_makes_a_small_vocabulary(self, tiny):
        Path("few.txt").write_text("low lower lowest " * 300)
        words = ["--data.train-path", "few.txt", "--run-dir", "run"]
        with pytest.warns(
            UserWarning, match="no pair"
        ):  # the trainer says that it ran out of pairs
            assert main(["--config", tiny, *words]) == 0
        shutil.rmtree("run/tokenizer")
        assert main(["--resume", "run"]) == 0  # and is made again with the same size
        vocab_size = yaml.safe_load(Path("run/config.yaml").read_text())["model"]["vocab_size"]
        assert vocab_size == Tokenizer.from_directory("run/tokenizer").vocab_size < 300

    def test_a_run_stopped_before_its_vocabulary_was_known_resumes_with_the_right_size(
        self, tiny, monkeypatch
    ):
        Path("few.txt").write_text("low lower lowest " * 300)

        def stop(*_, **__):
            raise KeyboardInterrupt

        with monkeypatch.context() as early:
            early.setattr("cs336_basics.commands.train.prepare_data", stop)
            words = ["--data.train-path", "few.txt", "--run-dir", "run"]
            assert main(["--config", tiny, *words]) == 130
        with pytest.warns(UserWarning, match="no pair"):
            assert main(["--resume", "run"]) == 0
        vocab_size = yaml.safe_load(Path("run/config.yaml").read_text())["model"]["vocab_size"]
        assert vocab_size == Tokenizer.from_directory("run/tokenizer").vocab_size < 300

    def test_a_tokenizer_with_a_gap_in_its_ids_is_refused(self, tiny, text, capsys):
        vocab = {byte: bytes([byte]) for byte in range(256)}
        Tokenizer({**vocab, 257: b"<|endoftext|>"}, [], ["<|endoftext|>"]).save("gap")
        words = ["--data.train-path", text, "--data.tokenizer", "gap", "--run-dir", "run"]
        assert main(["--config", tiny, *words]) == 2
        assert "id 256" in capsys.readouterr().err

    def test_a_tokenizer_without_the_end_of_text_token_is_refused(self, tiny, text, capsys):
        vocab, merges = TRAINERS["heap"](num_workers=1).train(text, 290, [])
        Tokenizer(vocab, merges).save("plain")
        words = ["--data.train-path", text, "--data.tokenizer", "plain", "--run-dir", "run"]
        assert main(["--config", tiny, *words]) == 2
        assert "<|endoftext|>" in capsys.readouterr().err

    def test_text_that_changed_since_is_refused_on_resume(self, tiny, text, capsys):
        words = ["--data.train-path", text, "--max-steps", "2", "--run-dir", "run"]
        assert main(["--config", tiny, *words]) == 0
        with open(text, "a") as file:
            file.write("One more story.")
        assert main(["--resume", "run", "--max-steps", "4"]) == 2
        assert "start a new run" in capsys.readouterr().err


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole")
    (path / "tiny.yaml").write_text(TINY)
    assert main(["--config", str(path / "tiny.yaml"), "--run-dir", str(path / "run")]) == 0
    return path / "run"


class TestResume:
    def test_stages_that_are_damaged_are_made_again_and_the_others_are_not(
        self, tiny, whole, capsys
    ):
        shutil.copytree(whole, "run")
        run = RunDirectory("run")
        tokens = run.data / "train.npy"
        content = tokens.read_bytes()
        tokens.write_bytes(content[:-2] + b"\0\1")
        shutil.rmtree(run.tokenizer)
        text_time = (run.data / "sample_train.txt").stat().st_mtime_ns
        capsys.readouterr()
        assert main(["--resume", "run"]) == 0
        out = capsys.readouterr().out
        assert "train text: as before" in out
        assert "tokenizer: done" in out
        assert "valid tokens: as before" in out
        assert tokens.read_bytes() == content
        assert (run.data / "sample_train.txt").stat().st_mtime_ns == text_time
        assert_equal_runs("run", whole)

    def test_a_run_with_more_steps_goes_on(self, tiny, whole, capsys):
        shutil.copytree(whole, "run")
        assert main(["--resume", "run", "--max-steps", "14"]) == 0
        assert RunDirectory("run").read_metrics()[-1]["step"] == 14
        assert yaml.safe_load(Path("run/config.yaml").read_text())["max_steps"] == 14

    def test_a_damaged_checkpoint_is_named_and_another_used_on_request(self, tiny, whole, capsys):
        shutil.copytree(whole, "run")
        state = RunDirectory("run").checkpoint(12) / "state.json"
        state.write_bytes(state.read_bytes()[:50])
        assert main(["--resume", "run"]) == 2
        error = capsys.readouterr().err
        other = re.search(r"--resume-from (\S+)", error)[1]
        assert re.search("step_00000012 .*state.json", error)
        assert "Traceback" not in error
        shutil.copytree("run", "run2")
        assert main(["--resume", "run", "--resume-from", other]) == 0
        assert main(["--resume", "run2", "--skip-damaged"]) == 0
        for run in ("run", "run2"):
            shutil.rmtree(f"{run}/checkpoints/step_00000012.unused")
            assert_equal_runs(run, whole)

    def test_divergence_ends_with_1_and_names_the_step(self, tiny, capsys):
        # Steps that large overflow within a few of them.
        words = ["--schedule.max-learning-rate", "1e30", "--optimizer.weight-decay", "0"]
        assert main(["--config", tiny, "--run-dir", "run", *words]) == 1
        error = capsys.readouterr().err
        assert re.search(r"error: step \d+: the loss is", error)


def start(run, *words):
    return subprocess.Popen(
        [*COMMAND, *words, "--run-dir", str(run)]
        if "--resume" not in words
        else [*COMMAND, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    )


def wait_for_rows(process, run, count):
    """Wait until the run has written `count` rows, or has begun if that is 0, or has ended."""
    deadline = time.monotonic() + 120
    config, metrics = Path(run) / "config.yaml", Path(run) / "metrics.jsonl"
    while process.poll() is None and time.monotonic() < deadline:
        if config.exists() and count == 0:
            return
        if metrics.exists() and metrics.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.002)


def wait_for_a_save(process, run):
    """Wait until the run is in the middle of writing a checkpoint, or has ended."""
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if list(Path(run, "checkpoints").glob(".step_*.tmp")):
            return True
        time.sleep(0.0005)
    return False


def kill(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


KILL_STEPS = 120
KILL_CONFIG = TINY.replace("max_steps: 12", f"max_steps: {KILL_STEPS}").replace(
    "eval_every: 6", "eval_every: 30"
)


@pytest.fixture(scope="module")
def never_stopped(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole")
    (path / "config.yaml").write_text(KILL_CONFIG)
    finish(start(path / "run", "--config", str(path / "config.yaml")))
    return path / "run"


def finish(process):
    _, error = process.communicate(timeout=240)
    assert process.returncode == 0, error


def run_with_kills(path, seed, kills):
    """Start a run, kill it at random moments, resume it each time, and let it end at last.

    The first kill falls into the preparation of the data, the others into the training, every
    second of them into the writing of a checkpoint.
    """
    moments = random.Random(seed)
    (path / "config.yaml").write_text(KILL_CONFIG)
    run = path / "run"
    # So many rows a run writes: the first step, steps that are logged, evaluations.
    rows = 1 + KILL_STEPS // 2 + KILL_STEPS // 30
    words = ["--config", str(path / "config.yaml")]
    for number, at in enumerate([0, *sorted(moments.randrange(1, rows) for _ in range(kills - 1))]):
        process = start(run, *words)
        wait_for_rows(process, run, at)
        if number % 2 == 1 and wait_for_a_save(process, run):
            time.sleep(moments.random() * 0.01)  # a save takes about that long
        else:
            time.sleep(moments.random() * (0.5 if at == 0 else 0.02))
        kill(process)
        words = ["--resume", str(run)]
    finish(start(run, *words))
    return run


@pytest.mark.parametrize("seed", [1])
def test_a_run_killed_at_random_moments_equals_one_that_was_not(tmp_path, never_stopped, seed):
    run = run_with_kills(tmp_path, seed, kills=3)
    assert_equal_runs(run, never_stopped)
    assert not list(run.rglob(".*.tmp"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 125))
def test_kill_campaign(tmp_path, never_stopped, seed):
    assert_equal_runs(run_with_kills(tmp_path, seed, kills=4), never_stopped)


def test_signals_save_say_how_to_go_on_and_give_their_status(tmp_path, never_stopped):
    (tmp_path / "config.yaml").write_text(KILL_CONFIG)
    run = tmp_path / "run"
    words = ["--config", str(tmp_path / "config.yaml")]
    for number, status, rows in ((signal.SIGINT, 130, 10), (signal.SIGTERM, 143, 30)):
        process = start(run, *words)
        wait_for_rows(process, run, rows)
        process.send_signal(number)
        _, error = process.communicate(timeout=120)
        assert process.returncode == status, error
        assert f"--resume {run}" in error
        assert "Traceback" not in error
        assert f"after step {RunDirectory(run).steps_saved()[-1]}" in error
        words = ["--resume", str(run)]
    finish(start(run, *words))
    assert_equal_runs(run, never_stopped)
