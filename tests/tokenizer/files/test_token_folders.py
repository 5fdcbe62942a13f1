"""Folders of token files; those at URLs are refused until they are complete."""

from __future__ import annotations

import json

import pytest

from cs336_basics._support.errors import MissingFileError, OutputExistsError
from cs336_basics.tokenizer import encode_file, load_token_file
from cs336_basics.tokenizer.files.token_folders import download_token_files, token_folder
from tests.errors import rejects
from tests.tokenizer.examples import TRAINING_TEXT, small_tokenizer

fsspec = pytest.importorskip("fsspec")
URL = "memory://tokens"


@pytest.fixture
def memory(tmp_path):
    """Return fsspec's in-memory file system, with one token file in an unfinished folder."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    (tmp_path / "a.txt").write_text(TRAINING_TEXT)
    encode_file(small_tokenizer(), tmp_path / "a.txt", tmp_path / "a.npy")
    system.pipe_file("/tokens/00000.npy", (tmp_path / "a.npy").read_bytes())
    yield system
    system.store.clear()


def information(tmp_path):
    tokens = load_token_file(tmp_path / "a.npy")
    return {"tokenizer_hash": small_tokenizer().hash(), "num_tokens": len(tokens)}


def test_a_directory_is_created_with_its_parents(tmp_path):
    folder = token_folder(tmp_path / "new" / "tokens")
    for _ in range(2):
        folder.create()
        assert folder.names() == []


def test_a_folder_is_refused_until_it_is_complete(memory, tmp_path):
    folder = token_folder(URL + "/")
    assert folder.names() == ["00000.npy"]
    assert folder.metadata("00000.npy")["tokenizer_hash"] == small_tokenizer().hash()
    with rejects(None, "memory://tokens", kind=MissingFileError):
        download_token_files(URL, tmp_path / "copy")
    folder.complete(["00000.npy"], information(tmp_path))
    assert download_token_files(URL, tmp_path / "copy") == {
        "files": ["00000.npy"], **information(tmp_path),
    }  # fmt: skip
    assert (tmp_path / "copy/00000.npy").read_bytes() == (tmp_path / "a.npy").read_bytes()
    with rejects(None, "memory://tokens", kind=OutputExistsError):
        token_folder(URL)
    with rejects(None, tmp_path / "copy", kind=OutputExistsError):
        download_token_files(URL, tmp_path / "copy")


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"files": ["../a.npy"]}, (None, "complete.json")),
        ({"files": "00000.npy"}, (None, "complete.json")),
        ({"num_tokens": 1}, (None, "complete.json", 1)),
        ({"tokenizer_hash": None}, (None, "complete.json", "tokenizer_hash", "None")),
        ({"tokenizer_hash": "other"}, (None, "memory://tokens/00000.npy")),
    ],
)
def test_a_damaged_record_is_rejected_and_nothing_is_written(memory, tmp_path, change, fields):
    record = {"files": ["00000.npy"], **information(tmp_path), **change}
    memory.pipe_file("/tokens/complete.json", json.dumps(record).encode())
    with rejects(*fields):
        download_token_files(URL, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_truncated_token_file_is_damaged(memory):
    memory.pipe_file("/tokens/00000.npy", memory.cat_file("/tokens/00000.npy")[:-1])
    with rejects(None, place="memory://tokens/00000.npy"):
        token_folder(URL).metadata("00000.npy")


def test_folders_without_tokens_are_emptied(memory):
    token_folder(URL).discard()
    assert token_folder(URL).names() == []


def test_token_files_at_a_url_are_not_opened(memory):
    with rejects(None, place=URL + "/00000.npy"):
        load_token_file(URL + "/00000.npy")
