"""The pipeline from text to a tokenizer directory."""

from __future__ import annotations

import errno
import json
import os
import tempfile

import pytest

from cs336_basics._support.errors import OutputExistsError
from cs336_basics._support.files import sha256_file
from cs336_basics.bpe import TRAINERS, BPE_Trainer
from cs336_basics.counting import WordCounts
from cs336_basics.data.train_tokenizer import MOST_HASHED, describe_files, train_tokenizer
from cs336_basics.text import Corpus
from cs336_basics.tokenizer import Tokenizer
from tests.errors import rejects

END = "<|endoftext|>"
SIZE = 270


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("low lower lowest new newer newest " * 20)
    return path


def train(text, directory, **options):
    trainer = TRAINERS["heap"](num_workers=1)
    corpus = None if text is None else Corpus(text)
    return train_tokenizer(trainer, corpus, directory, SIZE, [END], **options)


def test_the_directory_contains_the_tokenizer_and_a_record_of_its_inputs(tmp_path, text):
    vocab, merges = train(text, tmp_path / "out")
    found = Tokenizer.from_directory(tmp_path / "out")
    assert (found.vocab, found.merges, found.special_tokens) == (vocab, merges, [END])
    training = json.loads((tmp_path / "out" / "training.json").read_text())
    size = text.stat().st_size
    record = {"path": str(text), "num_bytes": size, "sha256": sha256_file(text)}
    assert training["corpus"] == [record]
    assert training["trainer"] == "heap"
    assert float(training["unicode_version"]) >= 14


def test_saved_counts_replace_the_text(tmp_path, text):
    counts = str(tmp_path / "counts.npz")
    expected = train(text, tmp_path / "a", save_counts=counts)
    assert train(None, tmp_path / "b", counts=[counts]) == expected
    twice = train(text, tmp_path / "c", counts=[counts], save_counts=counts + "2.npz")
    assert twice == expected  # doubling all counts does not change the order of pairs
    once, both = WordCounts.load(counts), WordCounts.load(counts + "2.npz")
    assert {word: 2 * count for word, count in once.items()} == dict(both.items())


def test_an_existing_tokenizer_is_replaced_only_with_overwrite(tmp_path, text):
    train(text, tmp_path / "out", save_counts=str(tmp_path / "counts.npz"))
    with rejects(None, tmp_path / "out", kind=OutputExistsError):
        train(text, tmp_path / "out")
    with pytest.raises(NotADirectoryError, match="text"):
        train(text, text)
    train(text, tmp_path / "out", save_counts=str(tmp_path / "counts.npz"), overwrite=True)


def test_a_full_disk_is_detected_before_counting(tmp_path, text, monkeypatch):
    def full(dir):
        raise OSError(errno.ENOSPC, "No space left on device", os.path.join(dir, "tmp1ge0w5wy"))

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    monkeypatch.setattr(BPE_Trainer, "count_words", pytest.fail)
    with pytest.raises(OSError, match=r"No space") as error:
        train(text, tmp_path / "out")
    assert error.value.filename == str(tmp_path / "out")


def test_counts_with_another_pattern_are_rejected_before_counting(tmp_path, text, monkeypatch):
    counts = str(tmp_path / "counts.npz")
    train(text, tmp_path / "a", save_counts=counts)
    monkeypatch.setattr(BPE_Trainer, "count_words", pytest.fail)
    other = TRAINERS["heap"](pattern="cl100k", num_workers=1)
    with rejects("pattern", place="counts.npz"):
        train_tokenizer(other, Corpus(text), tmp_path / "b", SIZE, [END], counts=[counts])
    assert not (tmp_path / "b").exists()


def test_a_huge_file_is_recorded_without_a_hash(tmp_path):
    path = tmp_path / "large"
    with open(path, "wb") as file:
        file.truncate(MOST_HASHED + 1)  # a sparse file, which occupies no disk space
    assert describe_files([str(path), "s3://bucket/a.txt"]) == [
        {"path": str(path), "num_bytes": MOST_HASHED + 1, "sha256": None},
        {"path": "s3://bucket/a.txt"},
    ]
