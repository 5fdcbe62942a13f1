"""Token files: what loading checks, and refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cs336_basics.tokenizer import encode_file, load_document_starts, load_token_file
from tests.tokenizer.examples import small_tokenizer


@pytest.fixture
def token_file(source, out):
    encode_file(small_tokenizer(), source, out / "a.npy", num_workers=1)
    return out / "a.npy"


@pytest.mark.parametrize("missing", ["a.npy", "a.json"])
def test_the_error_for_a_missing_file_names_the_command_that_makes_it(token_file, missing):
    (token_file.parent / missing).unlink()
    with pytest.raises(FileNotFoundError, match=rf"{missing} does.*python -m cs336_basics encode"):
        load_token_file(token_file)


def test_a_file_of_another_tokenizer_is_refused_with_both_hashes(token_file):
    ours, other = small_tokenizer().hash(), small_tokenizer(()).hash()
    with pytest.raises(ValueError, match=rf"{ours}.*{other}"):
        load_token_file(token_file, tokenizer_hash=other)


def test_arguments_of_the_wrong_type_are_named(token_file):
    with pytest.raises(TypeError, match="vocab_size is True: it must be an int"):
        load_token_file(token_file, vocab_size=True)
    with pytest.raises(TypeError, match=r"tokenizer_hash is 5: pass a str, .*tokenizer\.hash\(\)"):
        load_token_file(token_file, tokenizer_hash=5)


def test_ids_beyond_the_model_are_refused(token_file):
    size = small_tokenizer().vocab_size
    with pytest.raises(
        ValueError, match=f"ids up to {size - 1}, beyond a vocabulary of {size - 1}"
    ):
        load_token_file(token_file, vocab_size=size - 1)
    # A model may know more ids than the tokenizer has.
    assert len(load_token_file(token_file, vocab_size=size + 7)) > 100


def test_a_damaged_array_is_refused(token_file):
    whole = token_file.read_bytes()
    for size in (0, 5, 100, 129, len(whole) - 1):
        token_file.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"a\.npy"):
            load_token_file(token_file)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((2, 3), dtype=np.uint16),
        np.zeros(6, dtype=np.int64),
        np.zeros(6, dtype=np.float32),
        np.zeros(6, dtype=np.uint16),
        np.zeros(6, dtype=np.uint32),
        np.array([None, {}], dtype=object),
    ],
)
def test_an_array_that_does_not_fit_its_metadata_is_refused(token_file, array):
    np.save(token_file, array, allow_pickle=True)
    with pytest.raises(ValueError, match=r"a\.npy"):
        load_token_file(token_file)


def write_npy(path, descr, shape, num_bytes, version=(1, 0)):
    """Write a .npy file with any header, as a literal."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (117 - len(header)) + b"\n"
    start = b"\x93NUMPY" + bytes(version) + len(header).to_bytes(2 * version[0], "little")
    path.write_bytes(start + header + bytes(num_bytes))


@pytest.mark.parametrize(
    ("descr", "shape"),
    [
        ("'|V0'", "(-1,)"),  # ended the process: NumPy divides by the size of an item
        ("[]", "(-1,)"),
        ("'|V0'", "(4,)"),
        ("'|S0'", "(4,)"),
        ("'<U0'", "(9223372036854775807,)"),
        ("[('a', '<u2')]", "(4,)"),
        ("'|O'", "(4,)"),
        ("'(0,)<u2'", "(4,)"),
        ("'(2,)<u2'", "(2,)"),
        ("'>u2'", "(4,)"),
        ("'<u8'", "(1,)"),
        ("'|b1'", "(8,)"),
        ("'<u2'", "()"),
        ("'<u2'", "(-4,)"),
        ("'<u2'", "(-1,)"),
        ("'<u2'", "(3,)"),
        ("'<u2'", "(5,)"),
        ("'<u2'", "(True,)"),
        ("'<u2'", "(4.0,)"),
        ("'<u2'", "(2, 2)"),
        ("'<u2'", "(0, 9223372036854775807)"),
        ("'<u2'", "(9223372036854775807,)"),
        ("'<u2'", "(4611686018427387904000000000000,)"),
        ("'<u2'", "(4,"),
        ("'<u2", "(4,)"),
        ("'<u2'", "(" * 90),
        ("'<M8'", "(1,)"),
        ("'nonsense'", "(4,)"),
        ("None", "(4,)"),
    ],
)
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0), (9, 9)])
def test_a_strange_header_is_refused(token_file, descr, shape, version):
    write_npy(token_file, descr, shape, 8, version)
    with pytest.raises(ValueError, match=r"a\.npy (holds|is not a complete)") as caught:
        load_token_file(token_file)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_document_starts_of_no_size_are_refused(source, out):
    encode_file(small_tokenizer(), source, out / "a.npy", num_workers=1, document_starts=True)
    assert len(load_document_starts(out / "a.npy"))
    write_npy(out / "a.starts.npy", "'|V0'", "(-1,)", 0)
    with pytest.raises(ValueError, match=r"a\.starts\.npy holds \|V0"):
        load_document_starts(out / "a.npy")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not JSON"),
        ("[1]", "of type list"),
        ("{}", "no 'tokenizer_hash'"),
        (b"\xff", "not JSON"),
    ],
)
def test_malformed_metadata_is_refused(token_file, content, message):
    path = token_file.with_suffix(".json")
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message):
        load_token_file(token_file)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_tokens", 3),
        ("dtype", "uint32"),
        ("vocab_size", "341"),
        ("num_bytes", "many"),
        ("num_bytes", -1),
        ("num_bytes", 10**400),
    ],
)
def test_metadata_that_does_not_fit_is_refused(token_file, key, value):
    path = token_file.with_suffix(".json")
    metadata = {**json.loads(path.read_text(encoding="utf-8")), key: value}
    path.write_text(json.dumps(metadata), encoding="utf-8")
    with pytest.raises(ValueError, match=key):
        load_token_file(token_file)


def test_damaged_document_starts_are_refused(source, out):
    encode_file(small_tokenizer(), source, out / "a.npy", num_workers=1, document_starts=True)
    path = out / "a.starts.npy"
    whole = np.load(path)
    for array, message in (
        (whole[:-1], "do not belong together"),
        (whole.astype(np.int32), "holds int32 .* it must hold int64 of one dimension"),
        (whole + 1, "does not fit"),
        (np.append(whole[:-1], 10**9), "does not fit"),
        (np.append([0, 10**9], whole[2:]), "does not ascend"),
        (np.append([0, -1], whole[2:]), "does not ascend"),
        (whole.reshape(1, -1), "one dimension"),
    ):
        np.save(path, array)
        with pytest.raises(ValueError, match=message):
            load_document_starts(out / "a.npy")
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="not a complete"):
        load_document_starts(out / "a.npy")
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.starts\.npy does not exist"):
        load_document_starts(out / "a.npy")
