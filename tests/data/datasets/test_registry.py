import re

import pytest

from cs336_basics.data.datasets import DATASETS, data_directory, dataset_path
from cs336_basics.data.datasets.registry import SPLITS


def test_every_dataset_is_described():
    assert list(DATASETS) == ["sample", "tinystories", "owt"]
    for name, dataset in DATASETS.items():
        assert dataset.name == name
        assert dataset.licence
        assert dataset.description
        assert "\n" not in dataset.description
        assert tuple(dataset.files) == SPLITS
        for file in dataset.files.values():
            assert file.num_bytes > 0
            assert (file.repository is None) == (name == "sample")
            packed = f"{file.name}.gz" if name == "owt" else file.name
            assert file.download_name == packed


@pytest.mark.parametrize(
    ("name", "split", "file"),
    [
        ("tinystories", "train", "TinyStoriesV2-GPT4-train.txt"),
        ("tinystories", "valid", "TinyStoriesV2-GPT4-valid.txt"),
        ("tinystories", "valid", "tinystories_valid.txt"),
        ("owt", "train", "owt_train.txt"),
        ("owt", "valid", "owt_valid.txt"),
        ("sample", "train", "sample_train.txt"),
    ],
)
def test_files_are_found_under_their_usual_names(tmp_path, name, split, file):
    (tmp_path / file).write_text("text", encoding="utf-8")
    assert dataset_path(name, split, tmp_path) == tmp_path / file


def test_the_full_file_is_preferred_to_an_extract(tmp_path):
    for file in ("tinystories_train.txt", "TinyStoriesV2-GPT4-train.txt"):
        (tmp_path / file).write_text("text", encoding="utf-8")
    assert dataset_path("tinystories", "train", tmp_path).name == "TinyStoriesV2-GPT4-train.txt"


def test_the_data_directory(monkeypatch, tmp_path):
    monkeypatch.delenv("CS336_DATA", raising=False)
    assert str(data_directory()) == "data"
    monkeypatch.setenv("CS336_DATA", "")
    assert str(data_directory()) == "data"
    monkeypatch.setenv("CS336_DATA", str(tmp_path))
    assert data_directory() == tmp_path
    assert str(data_directory("elsewhere")) == "elsewhere"


@pytest.mark.parametrize("name", list(DATASETS))
def test_the_error_for_a_missing_file_names_the_command_that_fetches_it(
    monkeypatch, tmp_path, name
):
    monkeypatch.setenv("CS336_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError) as caught:
        dataset_path(name, "train")
    message = str(caught.value)
    assert message.endswith(f"fetch it with: python -m cs336_basics download {name}")
    assert DATASETS[name].files["train"].name in message
    assert str(tmp_path) in message


def test_the_command_names_the_requested_directory(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        dataset_path("owt", "train", tmp_path / "my data")
    command = re.search(r"python -m cs336_basics download .*", str(caught.value)).group()
    assert command == f"python -m cs336_basics download owt --data-dir '{tmp_path}/my data'"


def test_a_compressed_file_gets_the_advice_to_unpack_it(tmp_path):
    (tmp_path / "owt_train.txt.gz").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"unpack it with: gunzip .*owt_train\.txt\.gz"):
        dataset_path("owt", "train", tmp_path)


def test_a_directory_of_that_name_is_not_the_file(tmp_path):
    (tmp_path / "owt_train.txt").mkdir()
    with pytest.raises(FileNotFoundError):
        dataset_path("owt", "train", tmp_path)


def test_the_error_for_an_unknown_name_lists_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match=r"'tinystory'.*sample, tinystories, owt"):
        dataset_path("tinystory", "train", tmp_path)
    with pytest.raises(ValueError, match=r"'test'.*train, valid"):
        dataset_path("owt", "test", tmp_path)
