"""The known datasets, and the locations of their files."""

import pytest

from cs336_basics._support.errors import MissingFileError
from cs336_basics.data.datasets import data_directory, dataset_path
from tests.errors import rejects


@pytest.mark.parametrize(
    ("name", "split", "file"),
    [
        ("tinystories", "train", "TinyStoriesV2-GPT4-train.txt"),
        ("tinystories", "valid", "tinystories_valid.txt"),
        ("owt", "valid", "owt_valid.txt"),
        ("sample", "train", "sample_train.txt"),
    ],
)
def test_files_are_found_under_the_names_of_the_course(tmp_path, name, split, file):
    (tmp_path / file).write_text("text", encoding="utf-8")
    assert dataset_path(name, split, tmp_path) == tmp_path / file


def test_the_full_file_is_preferred_to_an_extract(tmp_path):
    for file in ("tinystories_train.txt", "TinyStoriesV2-GPT4-train.txt"):
        (tmp_path / file).write_text("text", encoding="utf-8")
    assert dataset_path("tinystories", "train", tmp_path).name == "TinyStoriesV2-GPT4-train.txt"


def test_the_data_directory_is_the_argument_or_cs336_data_or_data(monkeypatch, tmp_path):
    monkeypatch.delenv("CS336_DATA", raising=False)
    assert str(data_directory()) == "data"
    monkeypatch.setenv("CS336_DATA", "")
    assert str(data_directory()) == "data"
    monkeypatch.setenv("CS336_DATA", str(tmp_path))
    assert data_directory() == tmp_path
    assert str(data_directory("elsewhere")) == "elsewhere"


def test_the_error_for_a_missing_file_has_the_command_that_fetches_it(monkeypatch, tmp_path):
    monkeypatch.setenv("CS336_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError) as caught:
        dataset_path("tinystories", "train")
    assert str(caught.value).startswith(str(tmp_path / "TinyStoriesV2-GPT4-train.txt"))
    assert str(caught.value).endswith(" `python -m cs336_basics download tinystories`")
    with pytest.raises(FileNotFoundError) as caught:
        dataset_path("owt", "train", tmp_path / "my data")
    assert f"fetch it into {tmp_path / 'my data'} with" in str(caught.value)


def test_the_error_for_a_compressed_file_has_the_command_that_decompresses_it(tmp_path):
    (tmp_path / "owt_train.txt.gz").write_bytes(b"")
    with rejects(None, "gunzip", "owt_train.txt.gz", kind=MissingFileError):
        dataset_path("owt", "train", tmp_path)


def test_the_error_for_an_unknown_name_lists_the_known_ones(tmp_path):
    with rejects("name", "'tinystory'"):
        dataset_path("tinystory", "train", tmp_path)
    with rejects("split", "'test'"):
        dataset_path("owt", "test", tmp_path)
