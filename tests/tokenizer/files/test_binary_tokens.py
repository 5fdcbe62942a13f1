"""Reading the token files of nanoGPT and llm.c."""

from __future__ import annotations

import numpy as np
import pytest

from cs336_basics.tokenizer import load_token_file
from cs336_basics.tokenizer.files.binary_tokens import map_binary_tokens
from cs336_basics.tokenizer.files.joined_tokens import load_token_files
from tests.errors import rejects

IDS = np.random.default_rng(0).integers(0, 50_000, 5_000)


def header(magic, version, count):
    numbers = np.zeros(256, "<i4")
    numbers[:3] = magic, version, count
    return numbers.tobytes()


def write(path, data):
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_raw_ids_are_mapped(tmp_path, dtype):
    path = write(tmp_path / "train.bin", IDS.astype(dtype).tobytes())
    ids = load_token_file(path, dtype=dtype, vocab_size=50_000)
    assert isinstance(ids, np.memmap)
    assert ids.dtype == dtype
    assert np.array_equal(ids, IDS)


@pytest.mark.parametrize(
    ("magic", "version", "dtype"), [(20240520, 1, "uint16"), (20240801, 7, "uint32")]
)
def test_a_header_of_llm_c_gives_the_type(tmp_path, magic, version, dtype):
    body = IDS.astype(dtype).tobytes()
    path = write(tmp_path / "a.bin", header(magic, version, len(IDS)) + body)
    for given in ("uint16", "uint32"):
        assert np.array_equal(map_binary_tokens(path, given), IDS)
    write(path, header(magic, 3, len(IDS)) + body)
    with rejects(None, "version", 3, place="a.bin"):
        map_binary_tokens(path)
    for count in (len(IDS) - 1, len(IDS) + 1, -1):
        write(path, header(magic, version, count) + body)
        with rejects(None, "damaged", place="a.bin"):
            map_binary_tokens(path)


@pytest.mark.parametrize(
    "data",
    [b"", b"a", b"abc", header(20240520, 1, 0), header(20240520, 1, -506)[:12]],
    ids=["empty", "1 byte", "3 bytes", "no ids", "negative"],
)
def test_files_without_whole_ids_are_rejected(tmp_path, data):
    with rejects(None, place="a.bin"):
        map_binary_tokens(write(tmp_path / "a.bin", data))


def test_ids_outside_the_vocabulary_are_rejected(tmp_path):
    path = write(tmp_path / "a.bin", IDS.astype("<u2").tobytes())
    with rejects(None, f"id {IDS.max()}", "40,000", place="a.bin"):
        map_binary_tokens(path, vocab_size=40_000)


@pytest.mark.parametrize("number", [16, 17, len(IDS)])
def test_uint32_ids_that_are_read_as_uint16_are_noticed(tmp_path, number):
    path = write(tmp_path / "a.bin", IDS[:number].astype("<u4").tobytes())
    with rejects(None, "token_dtype='uint32'", place="a.bin"):
        map_binary_tokens(path)


def test_a_few_ids_may_alternate_with_0(tmp_path):
    path = write(tmp_path / "a.bin", IDS[:15].astype("<u4").tobytes())
    assert np.array_equal(map_binary_tokens(path)[::2], IDS[:15])


def test_the_type_is_required_and_known(tmp_path):
    path = write(tmp_path / "a.bin", IDS.astype("<u2").tobytes())
    with rejects(None, "dtype='uint16'", place="a.bin"):
        load_token_file(path)
    with rejects("dtype", "int8"):
        load_token_file(path, dtype="int8")


def test_several_files_are_joined(tmp_path):
    for name, part in (("a", IDS[:100]), ("b", IDS[100:])):
        write(tmp_path / f"{name}.bin", part.astype("<u2").tobytes())
    assert np.array_equal(load_token_files(str(tmp_path / "*.bin"), dtype="uint16")[:], IDS)
