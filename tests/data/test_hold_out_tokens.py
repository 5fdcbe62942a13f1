"""Holding out the end of token files at document boundaries."""

from __future__ import annotations

import numpy as np
import pytest

from cs336_basics.data import hold_out_tokens as module
from cs336_basics.data.hold_out_tokens import hold_out_tokens
from cs336_basics.text import Corpus
from cs336_basics.tokenizer import encode_file
from cs336_basics.tokenizer.files.joined_tokens import load_token_files, open_token_files
from tests.errors import rejects
from tests.tokenizer.examples import END, byte_tokenizer

TOKENIZER = byte_tokenizer(END)


def encoded(directory, name, text, **options):
    (directory / f"{name}.txt").write_text(text, newline="")
    file = directory / f"{name}.npy"
    encode_file(TOKENIZER, directory / f"{name}.txt", file, num_workers=1, **options)
    return str(file)


def divide(files, fraction=0.1):
    tokens = load_token_files(files)
    train, valid = hold_out_tokens(open_token_files(files), fraction, 256)
    assert np.array_equal(np.concatenate([train[:], valid[:]]), tokens[:])
    assert all(isinstance(part, np.memmap) for side in (train, valid) for part in side.parts)
    return len(train), len(valid)


@pytest.mark.parametrize("document_starts", [False, True])
@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_the_cut_is_at_the_nearest_document_boundary(tmp_path, monkeypatch, document_starts, block):
    monkeypatch.setattr(module, "_BLOCK", block)
    for lengths in ([84, 12, 4], [80, 16, 4], [84, 10, 6], [95, 5], [10] * 10, [1] * 100):
        text = "".join("x" * (length - 1) + END for length in lengths)
        file = encoded(tmp_path, "a", text, document_starts=document_starts, overwrite=True)
        ends = np.cumsum(lengths)[:-1]
        expected = min((abs(end - 90), end) for end in ends if 80 <= end <= 95)[1]
        assert divide([file]) == (expected, 100 - expected), lengths


def test_document_starts_are_boundaries_without_separators(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"t": "xxxxxxxx"}\n' * 12)
    corpus = Corpus(tmp_path / "a.jsonl", field="t")
    encode_file(TOKENIZER, corpus, tmp_path / "a.npy", num_workers=1, document_starts=True)
    assert divide([str(tmp_path / "a.npy")], 0.1) == (88, 8)


def test_without_a_near_boundary_the_cut_is_between_any_tokens(tmp_path):
    text = "x" * 50 + END + "y" * 100
    for document_starts in (False, True):
        file = encoded(tmp_path, "a", text, document_starts=document_starts, overwrite=True)
        assert divide([file]) == (136, 15)


def test_the_end_of_a_file_is_a_boundary(tmp_path):
    files = [encoded(tmp_path, name, name * size) for name, size in (("a", 88), ("b", 12))]
    assert divide(files) == (88, 12)
    assert divide(files, 0.5) == (50, 50)
    assert divide(files[1:], 0.25) == (9, 3)


def test_one_token_cannot_be_split(tmp_path):
    with rejects(None, "data.valid_path", place="a.npy"):
        divide([encoded(tmp_path, "a", "x")])
    assert divide([encoded(tmp_path, "b", "xy")]) == (1, 1)
