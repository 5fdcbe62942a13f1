"""Exporting token files to nanoGPT and llm.c."""

from __future__ import annotations

import numpy as np
import pytest

from cs336_basics.__main__ import main
from cs336_basics.formats import export_tokens
from cs336_basics.tokenizer import encode_file, load_token_file
from tests.errors import rejects
from tests.tokenizer.examples import END, byte_tokenizer


@pytest.fixture
def token_file(tmp_path):
    (tmp_path / "a.txt").write_text(f"low lower{END}" * 500)
    encode_file(byte_tokenizer(END), tmp_path / "a.txt", tmp_path / "a.npy", num_workers=1)
    return tmp_path / "a.npy"


def test_a_file_for_nanogpt_has_only_the_ids(token_file, tmp_path):
    export_tokens([token_file, token_file], "nanogpt", tmp_path / "train.bin")
    ids = np.memmap(tmp_path / "train.bin", dtype=np.uint16, mode="r")
    assert np.array_equal(ids, np.tile(np.load(token_file), 2))


def test_a_file_for_llm_c_has_its_header(token_file, tmp_path):
    export_tokens(token_file, "llm.c", tmp_path / "train.bin")
    data = (tmp_path / "train.bin").read_bytes()
    expected = np.load(token_file)
    header = np.frombuffer(data, "<i4", 256)
    assert header[:3].tolist() == [20240520, 1, len(expected)]
    assert not header[3:].any()
    assert np.array_equal(np.frombuffer(data, "<u2", offset=1024), expected)
    assert np.array_equal(load_token_file(tmp_path / "train.bin", dtype="uint16"), expected)


def test_ids_of_32_bits_are_for_llm_c_only(token_file, tmp_path):
    tokenizer = byte_tokenizer(END, *(f"<{number}>" for number in range(66_000)))
    encode_file(tokenizer, tmp_path / "a.txt", tmp_path / "b.npy", num_workers=1)
    with rejects(None, "66,257", place="b.npy"):
        export_tokens(tmp_path / "b.npy", "nanogpt", tmp_path / "train.bin")
    assert not (tmp_path / "train.bin").exists()
    export_tokens(tmp_path / "b.npy", "llm.c", tmp_path / "train.bin")
    header = np.fromfile(tmp_path / "train.bin", "<i4", 3)
    ids = load_token_file(tmp_path / "train.bin", dtype="uint16")
    assert header.tolist() == [20240801, 7, len(ids)]
    assert ids.dtype == np.uint32
    assert np.array_equal(ids, np.load(tmp_path / "b.npy"))


def test_an_existing_file_is_replaced_only_if_asked(token_file, tmp_path, capsys):
    output = tmp_path / "train.bin"
    output.write_bytes(b"mine")
    words = ["export", "--tokens", str(token_file), "--to", "nanogpt", "--output", str(output)]
    assert main(words) == 2
    assert output.read_bytes() == b"mine"
    assert main([*words, "--overwrite"]) == 0
    assert "train.bin, " in capsys.readouterr().out


def test_the_name_ends_in_bin(token_file, tmp_path):
    with rejects("output", ".bin", "train.npy"):
        export_tokens(token_file, "nanogpt", tmp_path / "train.npy")
