"""`python -m cs336_basics.train` with a user's text, tokenizer and token files."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file

from cs336_basics._support.errors import MissingFileError
from cs336_basics.bpe import TRAINERS
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.data.data_config import DataConfig, Preparation
from cs336_basics.data.datasets import write_sample
from cs336_basics.data.prepare import check_sources, prepare_data
from cs336_basics.tokenizer import Tokenizer, encode_file
from cs336_basics.tokenizer.files.token_files import open_token_file
from tests.commands.small_run import command
from tests.errors import rejects
from tests.faults import restore, states_at_every_call
from tests.tokenizer.examples import BYTES, END

main = command("train")


def save_tokenizer(path, text, vocab_size=290):
    """Train a tokenizer on a text and save it."""
    vocab, merges = TRAINERS["heap"](num_workers=1).train(text, vocab_size, [END])
    tokenizer = Tokenizer(vocab, merges, [END])
    tokenizer.save(path)
    return tokenizer


class TestOwnText:
    @pytest.fixture
    def text(self, tiny):
        write_sample("my.txt", 60_000, seed=5)
        return "my.txt"

    def test_a_validation_text_and_a_finished_tokenizer_are_used(self, tiny, text):
        write_sample("valid.txt", 5_000, seed=6)
        tokenizer = save_tokenizer("tok", text)
        Path("tok/chat_template.jinja").write_text("{{ messages }}")
        words = ["--data.train-path", text, "--data.valid-path", "valid.txt"]
        words += ["--data.tokenizer", "tok", "--run-dir", "run"]
        assert main(["--config", tiny, *words]) == 0
        assert Tokenizer.from_directory("run/tokenizer").hash() == tokenizer.hash()
        assert Path("run/tokenizer/chat_template.jinja").read_text() == "{{ messages }}"
        metadata = open_token_file("run/data/valid.npy").metadata
        assert metadata["num_bytes"] == Path("valid.txt").stat().st_size

    @pytest.fixture
    def token_files(self, tiny, text):
        tokenizer = save_tokenizer("tok", text)
        write_sample("valid.txt", 5_000, seed=6)
        encode_file(tokenizer, text, "tokens.npy", num_workers=1)
        encode_file(tokenizer, "valid.txt", "valid.npy", num_workers=1)
        return ["--data.train-path", "tokens.npy", "--data.valid-path", "valid.npy"]

    def test_token_files_of_another_tokenizer_are_rejected(self, tiny, token_files, capsys):
        save_tokenizer("other", "my.txt", 280)
        words = [*token_files, "--data.tokenizer", "other", "--run-dir", "run"]
        assert main(["--config", tiny, *words]) == 2
        assert "tokens.npy" in capsys.readouterr().err
        assert not Path("run/checkpoints").exists()

    def test_token_files_require_a_tokenizer(self, tiny, token_files, capsys):
        assert main(["--config", tiny, *token_files, "--run-dir", "run"]) == 2
        assert "data.tokenizer" in capsys.readouterr().err

    def test_the_model_has_the_vocabulary_size_of_the_tokenizer(self, tiny, token_files):
        words = [*token_files, "--data.tokenizer", "tok", "--model.vocab-size", "5000"]
        assert main(["--config", tiny, *words, "--run-dir", "run"]) == 0
        assert yaml.safe_load(Path("run/config.yaml").read_text())["model"]["vocab_size"] == 290
        assert not list(Path("run/data").glob("*.npy"))  # the files are used in place

    def test_a_text_with_few_merges_gives_a_small_vocabulary(self, tiny, capsys):
        Path("few.txt").write_text("low lower lowest " * 300)
        words = ["--data.train-path", "few.txt", "--run-dir", "run"]
        assert main(["--config", tiny, *words]) == 0
        assert "cs336 train: warning: no pair" in capsys.readouterr().err
        shutil.rmtree("run/tokenizer")
        assert main(["--resume", "run"]) == 0  # rebuilds the tokenizer with the same size
        vocab_size = yaml.safe_load(Path("run/config.yaml").read_text())["model"]["vocab_size"]
        assert vocab_size == Tokenizer.from_directory("run/tokenizer").vocab_size < 300

    def test_a_run_interrupted_before_its_vocabulary_was_trained_resumes_with_the_right_size(
        self, tiny, monkeypatch
    ):
        Path("few.txt").write_text("low lower lowest " * 300)

        def stop(*_, **__):
            raise KeyboardInterrupt

        with monkeypatch.context() as early:
            early.setattr("cs336_basics.training.start.prepare_data", stop)
            words = ["--data.train-path", "few.txt", "--run-dir", "run"]
            assert main(["--config", tiny, *words]) == 130
        assert main(["--resume", "run"]) == 0
        vocab_size = yaml.safe_load(Path("run/config.yaml").read_text())["model"]["vocab_size"]
        assert vocab_size == Tokenizer.from_directory("run/tokenizer").vocab_size < 300

    @pytest.mark.parametrize(
        ("tokenizer", "named"),
        [
            (Tokenizer({**BYTES, 257: END.encode()}, [], [END]), "id 256"),
            (Tokenizer(BYTES, []), END),
        ],
    )
    def test_a_tokenizer_with_a_gap_or_no_end_of_text_is_rejected(
        self, tiny, text, monkeypatch, capsys, tokenizer, named
    ):
        monkeypatch.setattr("cs336_basics.training.start.prepare_data", pytest.fail)
        tokenizer.save("bad")
        words = ["--data.train-path", text, "--data.tokenizer", "bad", "--run-dir", "run"]
        assert main(["--config", tiny, *words]) == 2
        assert named in capsys.readouterr().err


def prepare(run, vocab_size=300, **data):
    """Prepare a run's data."""
    preparation = Preparation(DataConfig(**data), vocab_size, num_workers=1)
    return prepare_data(check_sources(preparation), RunDirectory(run))


def decoded(prepared):
    return [
        prepared.tokenizer.decode(np.asarray(tokens.open()[:]).tolist())
        for tokens in (prepared.train_tokens, prepared.valid_tokens)
    ]


def test_the_splits_of_the_sample_have_different_seeds(tmp_path):
    prepared = prepare(tmp_path / "run", sample_bytes=20_000)
    train, valid = decoded(prepared)
    assert 18_000 <= len(train.encode()) < 22_000
    assert 2_000 <= len(valid.encode()) < 5_000
    assert not set(train.split(END)[:-1]) & set(valid.split(END)[:-1])


def test_a_downloaded_dataset_is_used_in_place(tmp_path):
    for split in ("train", "valid"):
        with rejects(None, "download tinystories", kind=MissingFileError):
            prepare(tmp_path / "run", dataset="tinystories", data_dir=str(tmp_path))
        (tmp_path / f"TinyStoriesV2-GPT4-{split}.txt").write_text(f"{split} " * 50 + END)
    prepared = prepare(tmp_path / "run", 260, dataset="tinystories", data_dir=str(tmp_path))
    assert decoded(prepared) == [f"{split} " * 50 + END for split in ("train", "valid")]


@pytest.mark.parametrize(
    ("vocab_size", "data", "fields"),
    [
        (256, {}, ("model.vocab_size", 256)),
        (300, {"trainer": "fast"}, ("data.trainer", "'fast'")),
        (300, {"pattern": "("}, ("pattern", "'('")),
    ],
)
def test_a_tokenizer_that_cannot_be_trained_is_refused_before_the_preparation(
    vocab_size, data, fields
):
    with rejects(*fields):
        check_sources(Preparation(DataConfig(**data), vocab_size))


def test_a_missing_dataset_is_refused_before_the_preparation(tmp_path):
    data = DataConfig(dataset="tinystories", data_dir=str(tmp_path))
    with rejects(None, "download tinystories", kind=MissingFileError):
        check_sources(Preparation(data, 300))


def test_a_text_is_used_instead_of_a_missing_dataset(tmp_path):
    (tmp_path / "a.txt").write_text("one two")
    text = str(tmp_path / "a.txt")
    data = DataConfig(dataset="tinystories", data_dir=str(tmp_path), train_path=text)
    check_sources(Preparation(data, 300))


# Mixtures

FAST = ["--max-steps", "2", "--eval-every", "2", "--sample-tokens", "0"]


@pytest.fixture
def corpora(tiny):
    """Write a text, rows and a directory, and return the words of a mixture."""
    write_sample("stories.txt", 60_000, seed=5)
    rows = Path("stories.txt").read_text(encoding="utf-8").split(END)[::-1]
    Path("rows.jsonl").write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    Path("code").mkdir()
    for name in ("a.py", "b.py"):
        Path("code", name).write_text(f"def {name[0]}(x):\n    return x + 1\n" * 200)
    return ["stories.txt:0.6", "rows.jsonl:0.3", "code:0.1"]


def run(config, *words, path="run"):
    return main(["--config", config, *FAST, "--run-dir", path, *words])


def test_a_mixture_has_token_files_and_validation_for_each_corpus(tiny, corpora, capsys):
    assert run(tiny, "--data.mix", *corpora, "--data.field", "text") == 0
    out = capsys.readouterr().out
    for name in ("stories", "rows", "code"):
        tokens = [np.load(f"run/data/{name}/{split}.npy") for split in ("train", "valid")]
        assert 0.02 < len(tokens[1]) / sum(map(len, tokens)) < 0.12
    assert "validation: the end of stories.txt; the end of rows.jsonl; the end of code/b.py" in out
    assert re.search(r"\(passes: stories [\d.]+, rows [\d.]+, code [\d.]+\)", out)
    last = RunDirectory("run").read_metrics()[-1]
    assert {"val_loss/stories", "val_loss/rows", "val_loss/code"} < set(last)
    weights = json.loads(Path("run/tokenizer/training.json").read_text())["weights"]
    assert weights == {"stories": 0.6, "rows": 0.3, "code": 0.1}


def test_a_resumed_mixture_is_the_same_and_its_weights_cannot_change(tiny, corpora, capsys):
    words = ["--data.mix", *corpora, "--data.field", "text"]
    assert run(tiny, *words) == 0
    assert main(["--resume", "run", "--max-steps", "3"]) == 0
    assert main(["--config", tiny, "--run-dir", "whole", *words, *FAST, "--max-steps", "3"]) == 0
    tokens = [np.load(f"{path}/data/rows/train.npy") for path in ("run", "whole")]
    assert np.array_equal(*tokens)
    shutil.move("stories.txt", "moved")
    Path("moved").rename("stories.md")
    capsys.readouterr()
    assert main(["--resume", "run", "--max-steps", "4"]) == 2
    assert "stories.txt went" in capsys.readouterr().err
    moved = ["stories.md:0.6", *corpora[1:]]
    assert main(["--resume", "run", "--max-steps", "4", "--data.mix", *moved]) == 0
    capsys.readouterr()
    moved[0] = "stories.md:1"
    assert main(["--resume", "run", "--max-steps", "5", "--data.mix", *moved]) == 2
    error = capsys.readouterr().err
    assert "weights: [0.6, 0.3, 0.1] became [0.7" in error
    assert "; omit --data.mix, or start a new run" in error
    assert "with --init-from" in error


@pytest.mark.parametrize("every", [24, pytest.param(1, marks=pytest.mark.slow)])
def test_a_mixture_whose_preparation_is_killed_is_prepared_by_the_next_run(corpora, every):
    data = DataConfig(mix=tuple(corpora), field="text")
    preparation = Preparation(data, vocab_size=270, num_workers=1)

    run = Path("run")  # token files record the name of their text

    def prepared():
        found = prepare_data(
            check_sources(preparation), RunDirectory(run), report=lambda line: None
        )
        assert len(found.train_tokens.corpora) == 3
        return {str(path): path.read_bytes() for path in run.rglob("*") if path.is_file()}

    expected = prepared()
    shutil.rmtree(run)
    run.mkdir()
    states = states_at_every_call(prepared, run)
    assert len(states) > 40
    for state in states[::every]:
        shutil.rmtree(run)
        restore(state, run)
        assert prepared() == expected


def test_a_mixture_may_have_token_files_and_other_validation_text(tiny, corpora, capsys):
    save_tokenizer("tok", "stories.txt")
    tokenizer = Tokenizer.from_directory("tok")
    encode_file(tokenizer, "code/a.py", "code.npy", num_workers=1)
    encode_file(tokenizer, "code/b.py", "b.npy", num_workers=1)
    np.load("b.npy").tofile("code.bin")
    write_sample("valid.txt", 5_000, seed=6)
    words = ["--data.mix", "stories.txt:1", "code.npy:1", "code.bin:2", "--data.tokenizer", "tok"]
    assert run(tiny, *words) == 0
    assert run(tiny, *words, "--data.valid-path", "valid.txt", path="other") == 0
    assert "validation: valid.txt" in capsys.readouterr().out
    rows = RunDirectory("other").read_metrics()
    assert "val_loss" in rows[-1]
    assert not any(key.startswith("val_loss/") for key in rows[-1])


def test_the_same_file_in_two_corpora_is_refused(tiny, corpora, capsys):
    assert run(tiny, "--data.mix", "code:1", "code/a.py:1") == 2
    assert "code/a.py twice" in capsys.readouterr().err


# Data that has changed


def test_files_that_changed_or_went_are_named_and_new_ones_are_not_read(tiny, corpora, capsys):
    assert run(tiny, "--data.train-path", "code/*.py") == 0
    before = Path("code/a.py").read_text()
    Path("code/a.py").write_text(before.replace("x", "y"))
    capsys.readouterr()
    assert main(["--resume", "run", "--max-steps", "3"]) == 2
    error = capsys.readouterr().err
    assert "code/a.py changed (" in error
    assert "code/b.py" not in error
    assert "--data.from run" in error
    Path("code/a.py").write_text(before)
    Path("code/c.py").write_text(before)
    assert main(["--resume", "run", "--max-steps", "3"]) == 0
    assert re.search("not read.*code/c.py", capsys.readouterr().out)
    Path("code/b.py").write_text(Path("code/b.py").read_text()[:-10])
    assert main(["--resume", "run", "--max-steps", "4"]) == 2
    assert "code/b.py has lost 10 of its " in capsys.readouterr().err


@pytest.mark.parametrize("mixed", [False, True])
def test_a_run_goes_on_from_its_own_token_files(tiny, corpora, capsys, mixed):
    paths = ["--data.mix", *corpora] if mixed else ["--data.train-path", "rows.jsonl"]
    words = [*paths, "--data.field", "text"]
    assert main(["--config", tiny, "--run-dir", "whole", *words, *FAST, "--max-steps", "3"]) == 0
    limit = ["--schedule.cycle-steps", "3"]
    assert main(["--config", tiny, "--run-dir", "run", *words, *FAST, *limit]) == 0
    Path("rows.jsonl").unlink()
    capsys.readouterr()
    assert main(["--resume", "run", "--max-steps", "3"]) == 2
    assert "rows.jsonl went" in capsys.readouterr().err
    assert main(["--resume", "run", "--max-steps", "3", "--data.from", "run"]) == 0
    checkpoints = [RunDirectory(path).newest_checkpoint() for path in ("run", "whole")]
    models = [load_file(path) for path in checkpoints]
    assert all(np.array_equal(models[0][name], tensor) for name, tensor in models[1].items())
    assert yaml.safe_load(Path("run/config.yaml").read_text())["data"]["from"] == "run"
    file = Path("run/data", "stories" if mixed else "", "train.npy")
    os.truncate(file, 1000)
    assert main(["--resume", "run", "--max-steps", "4"]) == 2
    assert f"{file}: the file has changed" in capsys.readouterr().err


def test_a_new_run_has_no_token_files_to_go_on_from(tiny, capsys):
    assert run(tiny, "--data.from", "run") == 2
    assert "--data.from" in capsys.readouterr().err


def test_token_files_of_other_directories_are_not_the_runs_own(tiny, corpora, capsys):
    encode_file(save_tokenizer("tok", "stories.txt"), "stories.txt", "s.npy", num_workers=1)
    assert run(tiny, "--data.train-path", "s.npy", "--data.tokenizer", "tok") == 0
    capsys.readouterr()
    assert main(["--resume", "run", "--max-steps", "3", "--data.from", "run"]) == 2
    assert "the run did not write this file" in capsys.readouterr().err


TURNS = ["--data.prompt-field", "ask", "--data.answer-field", "say"]


@pytest.fixture
def turns(tiny):
    rows = [{"ask": f"What is {i}?", "say": f"It is {i + 1} minus one."} for i in range(200)]
    Path("turns.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "turns.jsonl"


def test_prompts_and_answers_are_encoded_with_the_template(tiny, turns, capsys):
    assert run(tiny, "--data.train-path", turns, *TURNS) == 0
    out = capsys.readouterr().out
    assert re.search(r"\nstep \d+: answers only: validation loss", out)
    assert re.search(r"\nloss counts +only the answers\n", out)
    tokenizer = Tokenizer.from_directory("run/tokenizer")
    assert tokenizer.special_tokens == [END, "<|user|>", "<|assistant|>"]
    texts = [tokenizer.decode(np.load(f"run/data/{split}.npy")) for split in ("train", "valid")]
    assert "".join(texts) == "".join(
        f"<|user|>What is {i}?<|assistant|>It is {i + 1} minus one.{END}" for i in range(200)
    )
    assert 0 < texts[1].count(END) < 30
    assert main(["--resume", "run", "--max-steps", "4"]) == 0
    assert main(["--resume", "run", "--max-steps", "5", "--data.prompt-field", "say"]) == 2


def test_a_tokenizer_without_the_special_tokens_gets_them(tiny, turns):
    Path("plain.txt").write_text("It is one minus one. What is it? " * 100)
    old = save_tokenizer("tok", "plain.txt")
    assert run(tiny, "--data.train-path", turns, *TURNS, "--data.tokenizer", "tok") == 0
    tokenizer = Tokenizer.from_directory("run/tokenizer")
    assert tokenizer.special_tokens == [END, "<|user|>", "<|assistant|>"]
    assert tokenizer.vocab_size == old.vocab_size + 2
    assert main(["--resume", "run", "--max-steps", "4"]) == 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (TURNS[:2], "--data.prompt-field requires --data.answer-field"),
        (TURNS[2:], "--data.answer-field requires --data.prompt-field"),
        ([*TURNS, "--data.field", "say"], "--data.field cannot be given with --data.answer-field"),
        ([*TURNS, "--data.prompt-field", "say"], "must not be --data.prompt-field"),
        ([*TURNS, "--data.train-path", "a.txt"], "applies only to JSON Lines, but a.txt is text"),
        ([*TURNS, "--data.valid-path", "a.txt"], "applies only to JSON Lines, but a.txt is text"),
        ([*TURNS, "--data.valid-path", "a.npy"], "is the token file a.npy"),
        ([*TURNS, "--model.vocab-size", "258"], "must be at least 259"),
    ],
)
def test_options_that_do_not_fit_prompts_and_answers_are_rejected(
    tiny, turns, capsys, words, problem
):
    Path("a.txt").write_text("A story.")
    np.save("a.npy", np.arange(9, dtype=np.uint16))
    assert run(tiny, "--data.train-path", turns, *words) == 2
    assert problem in capsys.readouterr().err
    assert not Path("run").exists()
