"""Validation text in the training text is refused before a run is created, or counted."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import shutil
from pathlib import Path

import pytest

from cs336_basics.data.data_config import DataConfig, Preparation
from cs336_basics.data.datasets import write_sample
from cs336_basics.data.overlap import shared_documents
from cs336_basics.data.prepare import check_sources
from cs336_basics.text import Corpus
from cs336_basics.tokenizer import encode_file
from tests.commands.small_run import command
from tests.errors import rejects
from tests.tokenizer.examples import END, byte_tokenizer

main = command("train")


@pytest.fixture
def texts(tmp_path, monkeypatch):
    """Enter a directory with two texts, a link and a copy of the second text, and token files."""
    monkeypatch.chdir(tmp_path)
    for name, seed in (("a.txt", 1), ("b.txt", 2)):
        write_sample(name, 2_000, seed)
    shutil.copy("b.txt", "copy.md")
    Path("sub").mkdir()
    write_sample("sub/c.txt", 2_000, 3)
    tokenizer = byte_tokenizer(END)
    tokenizer.save("tok")
    encode_file(tokenizer, "a.txt", "a.npy", num_workers=1)


def check(train, valid=None, **values):
    data = DataConfig(train_path=train, valid_path=valid, **values)
    check_sources(Preparation(data, 300))


@pytest.mark.parametrize(
    ("train", "valid", "named"),
    [
        ("b.txt", "b.txt", "b.txt"),
        ("*.txt", "b.txt", "b.txt"),
        ("sub", "sub/c.txt", "c.txt"),
        ("b.txt", "copy.md", "copy.md"),
        (("a.txt", "b.txt"), ("copy.md",), "copy.md"),
    ],
)
def test_a_validation_file_in_the_training_files_is_refused(texts, train, valid, named):
    with rejects("data.valid_path", named):
        check(train, valid)
    check(train, valid, allow_overlap=True)


@pytest.mark.skipif(os.name != "posix", reason="needs symbolic links")
def test_a_link_to_a_training_file_is_refused(texts):
    os.symlink("b.txt", "link.txt")
    with rejects("data.valid_path", "link.txt"):
        check("b.txt", "link.txt")


def test_a_token_file_for_both_is_refused(texts):
    with rejects("data.valid_path", "a.npy"):
        check("a.npy", "a.npy", tokenizer="tok")


def test_a_file_given_twice_is_refused_if_its_end_is_held_out(texts):
    with rejects("data.train_path", "a.txt"):
        check(("a.txt", "./a.txt"))
    check(("a.txt", "a.txt"), "b.txt")  # read twice on purpose


def test_a_refused_run_leaves_nothing_and_the_option_allows_it(tiny, capsys):
    write_sample("my.txt", 6000, seed=5)
    paths = ["--data.train-path", "my.txt", "--data.valid-path", "my.txt"]
    words = ["--config", tiny, *paths, "--max-steps", "2", "--run-dir", "run"]
    assert main(words) == 2
    assert "my.txt" in capsys.readouterr().err
    assert not Path("run").exists()
    assert main([*words, "--data.allow-overlap"]) == 0
    assert main(["--resume", "run", "--max-steps", "3"]) == 0


def test_documents_on_both_sides_are_counted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text(END.join(["one", "two", "three", " two "]))
    Path("b.txt").write_text(END.join(["two\n", "four", "two", "thre"]))
    assert shared_documents(Corpus("a.txt"), Corpus("b.txt")) == (2, 4)
    assert shared_documents(Corpus("b.txt"), Corpus("a.txt")) == (2, 4)


def test_documents_in_files_of_any_format_are_compared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    documents = ["one", "two ", "three", "\nfour"]
    Path("a.txt").write_text(END.join(documents))
    Path("a.txt.gz").write_bytes(gzip.compress(END.join(documents).encode()))
    Path("a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    corpora = Corpus("a.txt"), Corpus("a.txt.gz"), Corpus("a.jsonl", field="text")
    for train, valid in itertools.product(corpora, repeat=2):
        assert shared_documents(train, valid) == (4, 4)
        assert shared_documents(train, valid, most_bytes=15) is None


def test_a_compressed_text_is_not_read_beyond_the_limit(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"one" * 100_000))
    assert shared_documents(Corpus(path), Corpus(path), most_bytes=10_000) is None


def test_the_number_of_documents_on_both_sides_is_said(tiny, capsys):
    write_sample("my.txt", 6000, seed=5)
    text = Path("my.txt").read_text(encoding="utf-8")
    Path("my.txt").write_text(text + text[:8_000], encoding="utf-8")
    words = ["--config", tiny, "--data.train-path", "my.txt", "--max-steps", "2"]
    assert main([*words, "--run-dir", "run"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "also in" in line]
    assert "validation document" in line
