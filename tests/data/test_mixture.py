"""Parsing mixtures of corpora."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cs336_basics.data.data_config import DataConfig
from cs336_basics.data.mixture import parse_mixture
from tests.errors import rejects


def parsed(*words):
    return [(p.path, pytest.approx(p.weight), p.name) for p in parse_mixture(words)]


def test_a_word_is_a_path_and_a_weight():
    assert parsed("reviews.jsonl:0.6", "code/:0.3", "ko.txt:0.1") == [
        ("reviews.jsonl", 0.6, "reviews"),
        ("code/", 0.3, "code"),
        ("ko.txt", 0.1, "ko"),
    ]
    assert parse_mixture([]) == ()


def test_weights_are_relative():
    assert [p.weight for p in parse_mixture(["a:6", "b:3e0", "c:1.0"])] == [0.6, 0.3, 0.1]


@pytest.mark.parametrize(
    ("word", "path", "name"),
    [
        (r"C:\texts\a.txt:2", r"C:\texts\a.txt", None),
        ("s3://bucket/web/*.jsonl.gz:1", "s3://bucket/web/*.jsonl.gz", "web"),
        ("web/*.jsonl.gz:1", "web/*.jsonl.gz", "web"),
        ("web/**/*.txt:1", "web/**/*.txt", "web"),
        ("a:b.txt:1", "a:b.txt", "a_b"),
        ("한국어.txt.zst:1", "한국어.txt.zst", "한국어"),
        ("../x y.tar.txt:1", "../x y.tar.txt", "x_y_tar"),
        ("...:1", "...", "corpus"),
    ],
)
def test_the_path_ends_at_the_last_colon(word, path, name):
    (portion,) = parse_mixture([word])
    assert portion.path == path
    assert name in (None, portion.name)


def test_a_corpus_in_the_working_directory_has_its_name(tmp_path, monkeypatch):
    (tmp_path / "stories").mkdir()
    monkeypatch.chdir(tmp_path / "stories")
    assert [p.name for p in parse_mixture([".:1", "*.txt:1"])] == ["stories", "stories-2"]
    Path("odd[1].txt").touch()
    assert parse_mixture(["odd[1].txt:1"])[0].name == "odd_1"


def test_weights_whose_sum_is_too_large_are_rejected():
    with rejects(None, "finite sum", "smaller"):
        parse_mixture(["a:1e308", "b:1e308"])


def test_names_are_distinct_as_directories():
    words = ["x/a.txt:1", "y/a.txt:1", "z/A.jsonl:1", "a-2.txt:1"]
    assert [p.name for p in parse_mixture(words)] == ["a", "a-2", "A-3", "a-2-2"]


@pytest.mark.parametrize(
    "words",
    [["a.txt"], ["a.txt:"], [":1"], ["a.txt:x"], ["a.txt:1_0"], ["a.txt:0"], ["a.txt:-1"],
     ["a.txt:nan"], ["a.txt:inf"], [r"C:\a.txt"], ["a.txt:1", "a.txt:2"], ["a:1", "b:1e-9"],
     ["http://host/a.txt"]],
)  # fmt: skip
def test_a_word_without_a_path_or_a_positive_weight_is_rejected(words):
    with rejects("mix", words[-1].rpartition(":")[0] or words[-1]):
        DataConfig(mix=words)


def test_a_mixture_is_given_instead_of_a_path():
    with rejects("mix", "train_path"):
        DataConfig(mix=("a.txt:1",), train_path="b.txt")
    assert DataConfig(mix=("a.txt:1",), valid_path="b.txt", field="text").train_path is None
    assert DataConfig(mix=["~/a.txt:1"]).mix == (os.path.expanduser("~/a.txt:1"),)
