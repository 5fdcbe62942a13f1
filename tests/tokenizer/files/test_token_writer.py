"""Ctrl-C or a full disk leaves no token file; see also tests/test_artifacts.py."""

from __future__ import annotations

import json
import os
import random
import signal

import pytest

from cs336_basics.tokenizer import encode_file
from tests.faults import alarm, file_size_limit
from tests.tokenizer.examples import TRAINING_TEXT, small_tokenizer
from tests.tokenizer.files.corpus_files import corpus_of


def huge_word():
    """Return 60 MB of text that has no safe cut and takes seconds to encode."""
    return bytes(random.Random(5).choices(b"!.<|>", k=1 << 20)) * 60


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX signals")
def test_ctrl_c_cancels_a_huge_word_of_plain_text(tmp_path, out, monkeypatch):
    native = pytest.importorskip("cs336_basics.tokenizer.encoders._encoder")
    (tmp_path / "a.txt").write_bytes(huge_word() + b"\xff")
    file_encoding = native.FileEncoding

    def watch(*arguments):
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        return file_encoding(*arguments)

    monkeypatch.setattr(native, "FileEncoding", watch)
    with alarm(signal.default_int_handler), pytest.raises(KeyboardInterrupt):
        encode_file(small_tokenizer(), tmp_path / "a.txt", out / "a.npy", num_workers=1)
    assert os.listdir(out) == []


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_a_full_disk_is_reported_and_leaves_no_file(tmp_path, out, name):
    text = TRAINING_TEXT * 2000
    lines = "".join(json.dumps({"text": text[i : i + 500]}) + "\n" for i in range(0, 10**6, 500))
    (tmp_path / name).write_text(lines if name == "a.jsonl" else text, encoding="utf-8")
    with file_size_limit(100_000), pytest.raises(OSError, match=r"\ba\.npy"):
        encode_file(
            small_tokenizer(), corpus_of(tmp_path / name), out / "a.npy",
            num_workers=2, chunk_size=10_000,
        )  # fmt: skip
    assert os.listdir(out) == []
