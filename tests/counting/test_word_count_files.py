"""Damaged word count files are rejected, and loading needs memory proportional to a file's size."""

from __future__ import annotations

import json
import os
import re
import tracemalloc
import zipfile

import numpy as np
import pytest

from cs336_basics.counting import WordCounts
from tests.errors import rejects

HEADER = {
    "format": "cs336_basics word counts",
    "version": 1,
    "pattern": "gpt2",
    "special_tokens": ["<|endoftext|>"],
}


def write_counts(path, header=None, save=np.savez, **changes):
    """Write a word count file containing two words, with the given changes applied."""
    content = (
        header if isinstance(header, bytes) else json.dumps({**HEADER, **(header or {})}).encode()
    )
    arrays = {
        "header": np.frombuffer(content, np.uint8),
        "data": np.frombuffer(b"abc", np.uint8),
        "offsets": np.array([0, 1, 3]),
        "counts": np.array([5, 6]),
        **changes,
    }
    save(path, **arrays)


def rejected(path):
    """Check that loading rejects a file and uses little memory. Return the message."""
    tracemalloc.start()
    try:
        with rejects(None, place="c.npz") as caught:
            WordCounts.load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 500 + len(str(path))
    assert peak < 2_000_000 + 10 * path.stat().st_size
    return message


def test_saved_word_counts_are_loaded_unchanged(tmp_path):
    path = tmp_path / "c.npz"
    for content in ({b"the": 3, b"x" * 40: 2**40}, {}, {b"": 5, b"\0\xff": 1}):
        WordCounts.from_mapping(content, "cl100k").save(path)
        loaded = WordCounts.load(path)
        assert loaded == content
        assert loaded.pattern == "cl100k"
    with np.load(path, allow_pickle=False) as archive:  # the documented way to read the file
        assert sorted(archive) == ["counts", "data", "header", "offsets"]
        assert archive["counts"].dtype == np.dtype("<i8")
    write_counts(path)
    assert WordCounts.load(path) == {b"a": 5, b"bc": 6}


def test_damaged_and_foreign_files_are_rejected(tmp_path):
    path = tmp_path / "c.npz"
    write_counts(path)
    good = path.read_bytes()
    for data in (b"", b"text", good[:-50], good[: len(good) // 2], good[:300] + good[310:]):
        path.write_bytes(data)
        rejected(path)
    with pytest.raises(FileNotFoundError, match=r"gone\.npz"):
        WordCounts.load(tmp_path / "gone.npz")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"special_tokens": "abc"}, "special_tokens must be .* got 'abc'"),
        ({"special_tokens": [1]}, r"special_tokens must be .* got \[1\]"),
        ({"pattern": 7}, "pattern must be .* got 7"),
        ({"version": 3}, "version must be 1 or 2, got 3"),
        ({"version": 2, "normalizer": "nfc"}, "must be one of NFC.* or None, got 'nfc'"),
        ({"format": "x" * 10**5}, "format must be .* got 'x"),
        (b"[]", r"format must be .* got \[\]"),
        (b"{", "not JSON"),
        (b"\xff", "UTF-8"),
        (b"[" * 10**5, "nested too deeply"),
    ],
)
def test_bad_headers_are_rejected(tmp_path, header, message):
    write_counts(tmp_path / "c.npz", header)
    assert re.search(message, rejected(tmp_path / "c.npz"))


def test_compressed_arrays_are_rejected(tmp_path):
    path = tmp_path / "c.npz"
    write_counts(path, save=np.savez_compressed, data=np.zeros(50_000_000, np.uint8))
    assert "header.npy is compressed" in rejected(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"data": np.array([None])},
        {"data": np.zeros(3, "V0")},
        {"data": np.zeros((3, 1), np.uint8)},
        {"offsets": np.array([0, 1, 3], np.int32)},
        {"offsets": np.array([0, -1, 3])},
        {"offsets": np.array([], np.int64)},
        {"counts": np.array([5, -6])},
    ],
)
def test_bad_arrays_are_rejected(tmp_path, changes):
    write_counts(tmp_path / "c.npz", **changes)
    rejected(tmp_path / "c.npz")


@pytest.mark.parametrize("shape", ["(10000000000000,)", "(-1,)", "(" * 90, "(3,"])
def test_wrong_array_shapes_are_rejected(tmp_path, shape):
    path = tmp_path / "c.npz"
    write_counts(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (117 - len(header)) + b"\n"
    members["data.npy"] = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"abc"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    assert "data.npy: not a complete .npy file" in rejected(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX FIFOs")
def test_a_fifo_is_rejected(tmp_path):
    os.mkfifo(tmp_path / "c.npz")
    with rejects(None, "c.npz"):
        WordCounts.load(tmp_path / "c.npz")
    with rejects(None, "c.npz"):
        WordCounts.from_mapping({b"a": 1}).save(tmp_path / "c.npz")
