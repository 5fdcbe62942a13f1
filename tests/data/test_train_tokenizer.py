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
from cs336_basics.data.train_tokenizer import train_tokenizer
from cs336_basics.data.training_text import CountedText
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


def train(text, directory, overwrite=False, **options):
    trainer = TRAINERS["heap"](num_workers=1)
    counted = CountedText(None if text is None else Corpus(text), **options)
    return train_tokenizer(trainer, counted, directory, SIZE, [END], overwrite=overwrite)


def test_the_directory_contains_the_tokenizer_and_a_record_of_its_inputs(tmp_path, text):
    vocab, merges, _ = train(text, tmp_path / "out")
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
    expected = train(text, tmp_path / "a", save_counts=counts)[:2]
    assert train(None, tmp_path / "b", counts=[counts])[:2] == expected
    twice = train(text, tmp_path / "c", counts=[counts], save_counts=counts + "2.npz")[:2]
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
        train_tokenizer(other, CountedText(Corpus(text), [counts]), tmp_path / "b", SIZE, [END])
    assert not (tmp_path / "b").exists()
