"""Token files are checked when they are loaded."""

from __future__ import annotations

import numpy as np
import pytest

from cs336_basics._support.errors import MissingFileError
from cs336_basics.tokenizer import (
    Tokenizer,
    encode_file,
    load_document_starts,
    load_token_file,
)
from cs336_basics.tokenizer.files.token_files import FOOTER, MAGIC
from tests.errors import rejects
from tests.tokenizer.examples import END, small_tokenizer
from tests.tokenizer.files.corpus_files import metadata_of, rewrite


@pytest.fixture
def token_file(source, out):
    encode_file(small_tokenizer(), source, out / "a.npy", num_workers=1)
    return out / "a.npy"


def test_the_error_for_a_missing_file_names_the_command_that_makes_it(token_file):
    token_file.unlink()
    with rejects(None, "cs336_basics encode", place=token_file, kind=MissingFileError):
        load_token_file(token_file)


def test_a_plain_array_is_rejected_with_the_command_that_makes_a_token_file(token_file):
    np.save(token_file, np.load(token_file))
    with rejects(None, "python -m cs336_basics encode", place="a.npy"):
        load_token_file(token_file)


def test_numpy_maps_the_ids_and_ignores_the_other_parts(source, out):
    encode_file(small_tokenizer(), source, out / "a.npy", num_workers=1, document_starts=True)
    for mode in (None, "r", "c"):
        found = np.load(out / "a.npy", mmap_mode=mode)
        assert found.tolist() == load_token_file(out / "a.npy").tolist()
    with open(out / "a.npy", "rb") as file:
        assert np.load(file).tolist() == found.tolist()


@pytest.mark.parametrize("directory", [None, "made/by"])
def test_the_error_for_another_tokenizer_names_its_directory(source, out, directory):
    tokenizer = small_tokenizer()
    if directory is not None:
        tokenizer.save(out / directory)
        tokenizer = Tokenizer.from_directory(out / directory)
    encode_file(tokenizer, source, out / "a.npy", num_workers=1)
    with rejects(None, place="a.npy") as caught:
        load_token_file(out / "a.npy", tokenizer_hash=small_tokenizer(()).hash())
    assert (str(out / "made/by") in str(caught.value)) == (directory is not None)
    assert tokenizer.hash() not in str(caught.value)


def test_a_vocabulary_larger_than_the_model_is_rejected(token_file):
    size = small_tokenizer().vocab_size
    with rejects("vocab_size", size, size - 1, place="a.npy"):
        load_token_file(token_file, vocab_size=size - 1)
    # A model may have more ids than the tokenizer.
    assert len(load_token_file(token_file, vocab_size=size + 7)) > 100


@pytest.mark.parametrize("document_starts", [False, True])
def test_a_truncated_file_is_rejected(tmp_path, out, document_starts):
    source, path = tmp_path / "text.txt", out / "a.npy"
    source.write_text(f"the cat{END}ate{END}", "utf-8")
    encode_file(small_tokenizer(), source, path, num_workers=1, document_starts=document_starts)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with rejects(None, place="a.npy"):
            load_token_file(path)
    for content in (whole + whole, whole[:-32] + whole[-40:], whole[:-40] + whole[-32:]):
        path.write_bytes(content)
        with rejects(None, place="a.npy"):
            load_token_file(path)


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("value", [0, 1, 130, 2**32, 2**63, 2**64 - 1, -1])
def test_a_footer_with_wrong_sizes_is_rejected(token_file, position, value):
    whole = token_file.read_bytes()
    fields = list(FOOTER.unpack(whole[-FOOTER.size :]))
    fields[position] = MAGIC[::-1] if position == 2 else value % 2**64
    token_file.write_bytes(whole[: -FOOTER.size] + FOOTER.pack(*fields))
    with rejects(None, place="a.npy"):
        load_token_file(token_file)


def write_npy(path, descr, shape, num_bytes, version=(1, 0)):
    """Write a .npy file with an arbitrary header."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (117 - len(header)) + b"\n"
    start = b"\x93NUMPY" + bytes(version) + len(header).to_bytes(2 * version[0], "little")
    array = start + header + bytes(num_bytes)
    path.write_bytes(array + bytes(-len(array) % 8) + FOOTER.pack(len(array), 0, MAGIC))


@pytest.mark.parametrize(
    ("descr", "shape"),
    [
        ("'|V0'", "(-1,)"),  # once crashed the process, because NumPy divides by the item size
        ("'|O'", "(4,)"),
        ("'(2,)<u2'", "(2,)"),
        ("'>u2'", "(4,)"),
        ("'<u8'", "(1,)"),
        ("'<f4'", "(2,)"),
        ("'<u2'", "()"),
        ("'<u2'", "(-4,)"),
        ("'<u2'", "(5,)"),
        ("'<u2'", "(4.0,)"),
        ("'<u2'", "(2, 2)"),
        ("'<u2'", "(4611686018427387904000000000000,)"),
        ("'<u2'", "(" * 90),
        ("None", "(4,)"),
    ],
)
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0), (9, 9)])
def test_an_unexpected_header_is_rejected(token_file, descr, shape, version):
    write_npy(token_file, descr, shape, 8, version)
    with rejects(None, place="a.npy") as caught:
        load_token_file(token_file)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "content", [b"", b"[1]", b"{}", b"\xff", b'{"tokenizer_hash": ""}', b"[" * 100_000]
)
def test_malformed_metadata_is_rejected(token_file, content):
    rewrite(token_file, metadata=content)
    with rejects(None, place="a.npy") as caught:
        load_token_file(token_file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tokenizer_hash", None),
        ("vocab_size", "341"),
        ("num_bytes", "many"),
        ("num_bytes", -1),
        ("num_bytes", 10**400),
        ("num_documents", 3),
    ],
)
def test_invalid_metadata_values_are_rejected(token_file, key, value):
    rewrite(token_file, metadata=metadata_of(token_file) | {key: value})
    with rejects(None, key if key != "num_documents" else "document starts"):
        load_token_file(token_file)


def test_damaged_document_starts_are_rejected(source, out):
    path = out / "a.npy"
    encode_file(small_tokenizer(), source, path, num_workers=1, document_starts=True)
    whole = load_document_starts(path).copy()
    for starts in (
        whole[:-1],
        whole + 1,
        np.append(whole[:-1], 10**9),
        np.append([0, 10**9], whole[2:]),
        np.append([0, -1], whole[2:]),
        np.append([0, 0], whole[2:]),
        np.append([0, 0], whole),
    ):
        encode_file(
            small_tokenizer(), source, path, num_workers=1, document_starts=True, overwrite=True
        )
        rewrite(path, starts=starts.astype("<i8").tobytes())
        with rejects(None, "document starts"):
            load_document_starts(path)
