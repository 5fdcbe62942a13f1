"""Token files: the ids of the whole text however it is encoded, and what is refused."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import cs336_basics
import cs336_basics.tokenizer.token_files as token_files
from cs336_basics.tokenizer import Tokenizer, encode_file, load_token_file
from tests.tokenizer.examples import BYTES, END, TRAINING_TEXT, small_tokenizer

# Several documents, long words, invalid UTF-8, a byte order mark, CRLF, NUL.
TEXT = b"".join(
    [
        b"\xef\xbb\xbf" + (TRAINING_TEXT + END).encode() * 2,
        b"\x00\xff\xc3( \xe2\x82 \xe2\x82\n\r\n",
        b"x" * 400 + b"  \n\n  ...\n...\r\n x\xe3\x80\x80  x\xc2\xa0  x",
        " 猫は鼠を食べた。".encode() * 20 + END.encode() + b"\n \xf0\x9f",
    ]
)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(TEXT)
    return path


@pytest.fixture
def out(tmp_path):
    directory = tmp_path / "out"
    directory.mkdir()
    return directory


def test_a_token_file_holds_the_ids_of_the_text(source, out):
    tokenizer = small_tokenizer()
    metadata = encode_file(tokenizer, source, out / "text.npy", num_workers=1)
    expected = tokenizer.encode(TEXT.decode("utf-8", errors="replace"))
    tokens = load_token_file(
        out / "text.npy", vocab_size=tokenizer.vocab_size, tokenizer_hash=tokenizer.hash()
    )
    assert tokens.tolist() == expected
    assert isinstance(tokens, np.memmap)
    assert (tokens.dtype, tokens.flags.writeable) == (np.dtype(np.uint16), False)
    assert np.load(out / "text.npy").tolist() == expected
    assert metadata == json.loads((out / "text.json").read_text(encoding="utf-8"))
    assert metadata == {
        "tokenizer_hash": tokenizer.hash(),
        "vocab_size": tokenizer.vocab_size,
        "dtype": "uint16",
        "num_tokens": len(expected),
        "num_bytes": len(TEXT),
        "bytes_per_token": len(TEXT) / len(expected),
        "source": str(source),
        "library_version": cs336_basics.__version__,
    }
    assert sorted(os.listdir(out)) == ["text.json", "text.npy"]


@pytest.mark.parametrize("special_tokens", [(), (END,), (END, "a b", "\n\n")])
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"\w+|\W"])
def test_the_bytes_are_the_same_for_every_chunk_size(source, out, special_tokens, pattern):
    tokenizer = small_tokenizer(special_tokens, pattern)
    encode_file(tokenizer, source, out / "a.npy", num_workers=1)
    expected = (out / "a.npy").read_bytes()
    for chunk_size in [1, 2, 3, 7, 64, 1000, len(TEXT) - 1, len(TEXT), len(TEXT) + 1]:
        encode_file(
            tokenizer, source, out / "a.npy", num_workers=1, chunk_size=chunk_size, overwrite=True
        )
        assert (out / "a.npy").read_bytes() == expected


def test_the_bytes_are_the_same_for_every_number_of_workers(source, out):
    tokenizer = small_tokenizer()
    for num_workers in (1, 2, 3):
        name = out / f"{num_workers}.npy"
        encode_file(tokenizer, source, name, num_workers=num_workers, chunk_size=500)
    assert (out / "1.npy").read_bytes() == (out / "2.npy").read_bytes()
    assert (out / "1.npy").read_bytes() == (out / "3.npy").read_bytes()
    assert (out / "1.json").read_bytes() == (out / "2.json").read_bytes()


def test_a_worker_reads_the_tokenizer_once(source, tmp_path):
    small_tokenizer().save(tmp_path / "tokenizer")
    token_files._load_once.cache_clear()
    for start in range(5):
        token_files._encode_range_in_worker(
            str(tmp_path / "tokenizer"), source, start, start + 9, np.dtype("<u2"), "replace"
        )
    assert token_files._load_once.cache_info().misses == 1
    token_files._load_once.cache_clear()


@pytest.mark.parametrize(
    ("greatest_id", "dtype"), [(65_535, np.uint16), (65_536, np.uint32), (2**32 - 1, np.uint32)]
)
def test_the_dtype_follows_the_greatest_id_not_their_number(source, out, greatest_id, dtype):
    vocab = {**BYTES, greatest_id: b"xx"}
    tokenizer = Tokenizer(vocab, [(b"x", b"x")], [])
    encode_file(tokenizer, source, out / "a.npy", num_workers=1)
    tokens = load_token_file(out / "a.npy")
    assert tokens.dtype == dtype
    assert tokens.max() == greatest_id


def test_an_id_beyond_32_bits_is_refused(source, out):
    with pytest.raises(ValueError, match=str(2**32)):
        encode_file(Tokenizer({**BYTES, 2**32: b"xx"}, []), source, out / "a.npy")
    assert os.listdir(out) == []


# ------------------------------------------------------------------ what is refused


def test_existing_files_are_kept_unless_told_otherwise(source, out):
    tokenizer = small_tokenizer()
    for name in ("a.npy", "a.json"):
        (out / name).write_text("mine")
        with pytest.raises(FileExistsError, match=rf"{name} exists.*overwrite"):
            encode_file(tokenizer, source, out / "a.npy")
        assert (out / name).read_text() == "mine"
        assert os.listdir(out) == [name]
        (out / name).unlink()
    (out / "a.npy").write_text("mine")
    (out / "a.json").write_text("mine")
    encode_file(tokenizer, source, out / "a.npy", num_workers=1, overwrite=True)
    assert len(load_token_file(out / "a.npy")) > 100


def test_the_source_is_never_replaced(out):
    source = out / "text.json"
    source.write_bytes(TEXT)
    with pytest.raises(ValueError, match="replace the text"):
        encode_file(small_tokenizer(), source, out / "text.npy", overwrite=True)
    assert source.read_bytes() == TEXT


@pytest.mark.parametrize("name", ["a.bin", "a", "npy", "a.npy.gz"])
def test_the_destination_must_be_named_npy(source, out, name):
    with pytest.raises(ValueError, match=r"does not end in \.npy"):
        encode_file(small_tokenizer(), source, out / name)


def test_a_bad_source_is_named(tmp_path, out):
    tokenizer = small_tokenizer()
    with pytest.raises(FileNotFoundError, match=r"nothing\.txt does not exist"):
        encode_file(tokenizer, tmp_path / "nothing.txt", out / "a.npy")
    with pytest.raises(ValueError, match="is a directory"):
        encode_file(tokenizer, tmp_path, out / "a.npy")
    (tmp_path / "empty.txt").touch()
    with pytest.raises(ValueError, match=r"empty\.txt is empty"):
        encode_file(tokenizer, tmp_path / "empty.txt", out / "a.npy")
    assert os.listdir(out) == []


@pytest.mark.parametrize(
    "options", [{"errors": "ignore"}, {"chunk_size": 0}, {"num_workers": 0}, {"num_workers": -1}]
)
def test_bad_options_are_named(source, out, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        encode_file(small_tokenizer(), source, out / "a.npy", **options)
    assert os.listdir(out) == []


@pytest.mark.parametrize("num_workers", [1, 2])
def test_strict_names_the_invalid_byte_and_leaves_nothing(source, out, num_workers):
    message = rf"text\.txt: byte 0xff at offset {TEXT.index(0xFF):,} "
    with pytest.raises(ValueError, match=message):
        encode_file(
            small_tokenizer(), source, out / "a.npy",
            errors="strict", num_workers=num_workers, chunk_size=100,
        )  # fmt: skip
    assert os.listdir(out) == []


def test_strict_takes_what_is_valid(tmp_path, out):
    (tmp_path / "a.txt").write_text(TRAINING_TEXT, encoding="utf-8")
    encode_file(
        small_tokenizer(), tmp_path / "a.txt", out / "a.npy", errors="strict", num_workers=1
    )
    assert len(load_token_file(out / "a.npy")) > 100


def test_an_absent_byte_is_named_with_the_file(tmp_path, out):
    (tmp_path / "a.txt").write_text("aaa b")
    with pytest.raises(ValueError, match=r"a\.txt, .* byte 0: .*0x20 of ' ' at character 3"):
        encode_file(Tokenizer({0: b"a"}, []), tmp_path / "a.txt", out / "a.npy")
    assert os.listdir(out) == []


def test_a_text_that_gives_no_tokens_is_refused(tmp_path, out):
    (tmp_path / "a.txt").write_text("...")
    with pytest.raises(ValueError, match="no tokens"):
        encode_file(Tokenizer(BYTES, [], pattern=r"\w+"), tmp_path / "a.txt", out / "a.npy")
    assert os.listdir(out) == []


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_interruption_leaves_the_old_file_or_none(source, out, monkeypatch, error):
    tokenizer = small_tokenizer()

    def encode_twice(*arguments):
        nonlocal calls
        calls += 1
        if calls == 3:
            raise error
        return encode_range(*arguments)

    encode_range = token_files._encode_range
    monkeypatch.setattr(token_files, "_encode_range", encode_twice)
    calls = 0
    with pytest.raises(error):
        encode_file(tokenizer, source, out / "a.npy", num_workers=1, chunk_size=100)
    assert os.listdir(out) == []

    calls = 1000
    encode_file(tokenizer, source, out / "a.npy", num_workers=1)
    old = (out / "a.npy").read_bytes(), (out / "a.json").read_bytes()
    calls = 0
    with pytest.raises(error):
        encode_file(tokenizer, source, out / "a.npy", num_workers=1, chunk_size=100, overwrite=True)
    assert ((out / "a.npy").read_bytes(), (out / "a.json").read_bytes()) == old
    assert sorted(os.listdir(out)) == ["a.json", "a.npy"]


def test_without_its_metadata_the_token_file_does_not_stay(source, out, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    # Not even beside the metadata of a file that it replaces.
    encode_file(small_tokenizer(), source, out / "a.npy", num_workers=1)
    monkeypatch.setattr(token_files, "write_json", fail)
    for name in ("a.npy", "b.npy"):
        with pytest.raises(OSError, match="disk full"):
            encode_file(small_tokenizer(), source, out / name, num_workers=1, overwrite=True)
    assert os.listdir(out) == []


# ------------------------------------------------------------------ loading


@pytest.fixture
def token_file(source, out):
    encode_file(small_tokenizer(), source, out / "a.npy", num_workers=1)
    return out / "a.npy"


@pytest.mark.parametrize("missing", ["a.npy", "a.json"])
def test_a_missing_part_is_answered_with_the_command_that_makes_it(token_file, missing):
    (token_file.parent / missing).unlink()
    with pytest.raises(FileNotFoundError, match=rf"{missing} does.*python -m cs336_basics\.encode"):
        load_token_file(token_file)


def test_another_tokenizer_is_refused_with_both_hashes(token_file):
    ours, other = small_tokenizer().hash(), small_tokenizer(()).hash()
    with pytest.raises(ValueError, match=rf"{ours}.*{other}"):
        load_token_file(token_file, tokenizer_hash=other)


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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not JSON"),
        ("[1]", "a list"),
        ("{}", "no 'tokenizer_hash'"),
        (b"\xff", "not JSON"),
    ],
)
def test_malformed_metadata_are_refused(token_file, content, message):
    path = token_file.with_suffix(".json")
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message):
        load_token_file(token_file)


@pytest.mark.parametrize(
    ("key", "value"), [("num_tokens", 3), ("dtype", "uint32"), ("vocab_size", "341")]
)
def test_metadata_that_do_not_fit_are_refused(token_file, key, value):
    path = token_file.with_suffix(".json")
    metadata = {**json.loads(path.read_text(encoding="utf-8")), key: value}
    path.write_text(json.dumps(metadata), encoding="utf-8")
    with pytest.raises(ValueError, match=key):
        load_token_file(token_file)
