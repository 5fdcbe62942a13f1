"""Directories that a search does not enter, and home directories."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cs336_basics._support.errors import MissingFileError
from cs336_basics.text import Corpus
from cs336_basics.text.paths import expand_paths, find_files
from cs336_basics.text.sources import MissingFieldError
from cs336_basics.text.sources.kinds import HEAD
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.config_files import config_to_yaml
from tests.errors import rejects

MARKED = {
    "env/pyvenv.cfg": "a virtual environment",
    "conda/conda-meta/history": "a virtual environment",
    "target/CACHEDIR.TAG": "a cache",
    "prepared/data/stages.json": "a run",
    "web/node_modules/package.json": "packages",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Enter a directory with a text, and one directory of each kind that is not entered."""
    monkeypatch.chdir(tmp_path)
    for marker in MARKED:
        Path(marker).parent.mkdir(parents=True)
        Path(marker).write_text("{}")
        Path(marker).with_name("b.md").write_text("not mine")
    Path("runs/one").mkdir(parents=True)
    Path("runs/one/config.yaml").write_text(config_to_yaml(TrainConfig()))
    Path("runs/one/b.md").write_text("not mine")
    Path("project").mkdir()
    Path("project/config.yaml").write_text("name: mine\n")
    Path("project/a.md").write_text("mine")


@pytest.mark.parametrize("pattern", [".", "**/*.md", "**", "./**/*.md", "{}/**/*.md"])
def test_a_search_does_not_enter_what_programs_wrote(folder, pattern):
    found = find_files(pattern.format(os.getcwd()))
    assert {os.path.relpath(file) for file in found.files} <= {
        "project/a.md",
        "project/config.yaml",
    }
    kinds = {os.path.relpath(path): kind for path, kind in found.skipped.items()}
    assert kinds == {
        "env": "a virtual environment",
        "conda": "a virtual environment",
        "target": "a cache",
        "prepared": "a run",
        "web/node_modules": "packages",
        "runs/one": "a run",
    }


def test_what_a_directory_has_besides_texts_is_noted(tmp_path):
    for name in ("a.md", "b.xz", "c.xz", "d", ".e.xz"):
        (tmp_path / name).write_text("text")
    (tmp_path / "gone.txt").symlink_to("nowhere")
    found = find_files(tmp_path)
    assert found.files == (str(tmp_path / "a.md"),)
    assert found.endings == {".xz": 2, "": 1}
    assert found.skipped == {str(tmp_path / "gone.txt"): "a link without a file"}


@pytest.mark.parametrize("paths", ["Once upon a time. " * 400, ["a" * 300]])
def test_a_text_in_place_of_a_path_is_rejected(paths):
    with rejects("paths", "train_from_iterator"):
        expand_paths(paths)


def test_a_short_text_in_place_of_a_path_has_a_hint():
    with rejects(None, "train_from_iterator", kind=MissingFileError):
        expand_paths("Once upon a time\nthere was a cat")


@pytest.mark.parametrize("pattern", ["runs/one", "runs/*/*.md", "runs/one/**/*.md"])
def test_a_directory_that_is_named_is_entered(folder, pattern):
    assert "runs/one/b.md" in expand_paths(pattern)


def test_a_glob_that_matches_only_such_files_matches_nothing(folder):
    with rejects(None, "env", kind=MissingFileError):
        expand_paths("**/env/*.md")
    with rejects(None, "web"):
        expand_paths("web")


def test_a_path_may_start_with_the_home_directory(folder, monkeypatch):
    monkeypatch.setenv("HOME" if os.name != "nt" else "USERPROFILE", os.path.abspath("project"))
    assert Corpus(["~/a.md", Path("~/*.md")]).files == (os.path.abspath("project/a.md"),) * 2


@pytest.mark.parametrize("format", [None, "text"])
def test_a_single_json_value_in_a_directory_is_skipped_unless_a_format_is_given(tmp_path, format):
    for name, text in (("a.txt", "text"), ("b.json", '{"text": "a"}\n{"text": "b"}\n')):
        (tmp_path / name).write_text(text)
    single = tmp_path / "package.json"
    single.write_text('{\n  "name": "a"\n}\n')
    found = find_files(tmp_path, format)
    names = ["a.txt", "b.json", "package.json"] if format else ["a.txt", "b.json"]
    assert found.files == tuple(str(tmp_path / name) for name in names)
    assert found.skipped == ({} if format else {str(single): "a single JSON value"})
    assert Corpus(tmp_path, field="text", format=format, allow_unused=True).files == found.files
    assert find_files(single).files == (str(single),)  # the user has named it


@pytest.mark.parametrize("field", [None, "name", "text"])
def test_a_json_file_of_one_line_in_a_directory_is_skipped_unless_it_has_the_field(tmp_path, field):
    (tmp_path / "a.txt").write_text("text")
    single = tmp_path / "package.json"
    single.write_text('\ufeff{"name": "a", "version": "1"}\n\n', encoding="utf-8")
    (tmp_path / "long.json").write_text(f'{{"name": "{"a" * HEAD}"}}')  # only its start is examined
    found = find_files(tmp_path, field=field)
    assert (str(single) in found.files) == (field == "name")
    assert found.skipped == ({} if field == "name" else {str(single): "a single JSON value"})
    assert str(tmp_path / "long.json") in found.files
    if field is not None:
        assert Corpus(tmp_path, field=field).files == found.files


def test_a_directory_with_only_json_files_of_one_line_needs_their_field(tmp_path):
    for name in ("b.json", "a.json"):
        (tmp_path / name).write_text('{"body": "a"}')
    assert find_files(tmp_path).files == (str(tmp_path / "a.json"), str(tmp_path / "b.json"))
    assert not find_files(tmp_path).skipped
    with rejects("field", kind=MissingFieldError):
        Corpus(tmp_path)
    (tmp_path / "deep").mkdir()
    with rejects(None, "deep"):  # not the files of the first directory
        find_files([tmp_path, tmp_path / "deep"])


def test_a_directory_with_only_single_json_values_says_how_to_read_them(tmp_path):
    (tmp_path / "all.json").write_text('[{"text": "a"}]')
    with rejects(None, "all.json", "format='text'"):
        find_files(tmp_path)
