"""encode_file: what it refuses. An error names the file and the offset, and leaves no file."""

from __future__ import annotations

import gzip
import os
import random
import re

import pytest

from cs336_basics.pretokenization import Corpus
from cs336_basics.tokenizer import Tokenizer, encode_file, load_token_file
from cs336_basics.tokenizer.files import encode_files
from cs336_basics.tokenizer.files.token_writer import TokenWriter
from tests.tokenizer.examples import BYTES, TRAINING_TEXT, small_tokenizer
from tests.tokenizer.files.corpus_files import TEXT, corpus_of, write_inputs


def test_an_id_beyond_32_bits_is_refused(source, out):
    with pytest.raises(ValueError, match=str(2**32)):
        encode_file(Tokenizer({**BYTES, 2**32: b"xx"}, []), source, out / "a.npy")
    assert os.listdir(out) == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt.gz", gzip.compress(TEXT)[:-20], r"a\.txt\.gz is damaged or truncated after \d+"),
        ("a.jsonl", b'{"text": "a"}\n{"text": \n', r"a\.jsonl, the line at byte 14: not JSON"),
        ("a.jsonl", b'{"text": "a"}\n{"txt": ""}', r"the line at byte 14: no field 'text'"),
        ("a.jsonl.gz", b"no gzip", r"a\.jsonl\.gz is damaged"),
        ("a.parquet", b"no parquet", r"a\.parquet is not a whole Parquet file"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_damaged_source_is_named(tmp_path, out, name, content, message, num_workers):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(content)
    (tmp_path / "0.txt").write_bytes(TEXT)
    with pytest.raises(ValueError, match=message):
        encode_file(
            small_tokenizer(),
            corpus_of([tmp_path / "0.txt", tmp_path / name]),
            out / "a.npy", num_workers=num_workers, chunk_size=100,
        )  # fmt: skip
    assert os.listdir(out) == []


def test_missing_fields_and_tokens_are_reported_before_the_work(tmp_path, out, monkeypatch):
    inputs = dict(write_inputs(tmp_path))
    monkeypatch.setattr(encode_files, "open_token_writer", None)  # is not reached
    for name, columns, options, message in (
        ("e.jsonl", {}, {}, "which field"),
        ("i.parquet", {}, {}, "has the columns id, body, and nothing says which"),
        ("i.parquet", {"column": "text"}, {}, "has the columns id, body, but not 'text'"),
        ("a.txt", {}, {"end_of_document": "<s>"}, "'<s>' is not a special token"),
    ):
        assert tmp_path / name in inputs
        with pytest.raises(ValueError, match=message):
            encode_file(
                small_tokenizer(), Corpus([tmp_path / "a.txt", tmp_path / name], **columns),
                out / "a.npy", **options,
            )  # fmt: skip
    assert os.listdir(out) == []


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.parquet"])
@pytest.mark.parametrize("left", [None, 10_000])
def test_a_source_that_changes_while_it_is_read_is_refused(
    tmp_path, out, monkeypatch, backend, name, left
):
    path = tmp_path / name
    line = b'{"text": "words of a line"}\n'
    if name == "a.parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        import pyarrow

        rows = [random.Random(i).randbytes(500).hex() for i in range(1000)]
        parquet.write_table(pyarrow.table({"text": rows}), path, row_group_size=50)
    else:
        path.write_bytes(line * 40_000)
    write = TokenWriter.write

    def shorten(*arguments):
        if left is None:
            path.unlink(missing_ok=True)
        else:
            os.truncate(path, left)
        write(*arguments)

    # A file that is open can still be read when its name is gone.
    monkeypatch.setattr(TokenWriter, "write", shorten)
    corpus = corpus_of([path, path])
    with pytest.raises((ValueError, FileNotFoundError), match=re.escape(name)) as caught:
        encode_file(
            small_tokenizer(backend=backend), corpus, out / "a.npy", num_workers=1, chunk_size=4096
        )
    if left is not None and name == "a.txt":
        assert re.search(r"ended at byte 10,000 where bytes up to [\d,]+ were", str(caught.value))
    assert os.listdir(out) == []


@pytest.mark.parametrize("chunk_size", [7, 1 << 20])
def test_strict_names_the_offset_of_an_invalid_byte_in_every_kind_of_file(
    tmp_path, out, backend, chunk_size
):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    text = b"words of a text \xc3\xa9 and then\n\xff\n"
    offset = text.index(0xFF)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text))
    (tmp_path / "b.jsonl").write_bytes(b'{"text": "a"}\n{"text": "\xff"}\n')
    table = pyarrow.table({"text": pyarrow.array([b"a", text])})
    parquet.write_table(table, tmp_path / "c.parquet")
    for name, message in (
        ("a.txt.gz", rf"a\.txt\.gz: byte 0xff at offset {offset} is not"),
        ("b.jsonl", r"b\.jsonl, the line at byte 14: byte 0xff at offset 10 is not"),
        ("c.parquet", rf"row 1 of row group 0: byte 0xff at offset {offset} is not"),
    ):
        with pytest.raises(ValueError, match=message):
            encode_file(
                small_tokenizer(backend=backend),
                corpus_of(tmp_path / name, errors="strict"),
                out / "a.npy", num_workers=1, chunk_size=chunk_size,
            )  # fmt: skip
    assert os.listdir(out) == []


def test_existing_files_are_kept_without_overwrite(source, out):
    tokenizer = small_tokenizer()
    (out / "a.npy").write_text("mine")
    with pytest.raises(FileExistsError, match=r"a\.npy exists.*overwrite"):
        encode_file(tokenizer, source, out / "a.npy")
    assert (out / "a.npy").read_text() == "mine"
    encode_file(tokenizer, source, out / "a.npy", num_workers=1, overwrite=True)
    assert len(load_token_file(out / "a.npy")) > 100


def test_the_source_is_never_replaced(out):
    source = out / "text.txt"
    source.write_bytes(TEXT)
    os.link(source, out / "text.npy")
    with pytest.raises(ValueError, match="would replace a file that is read"):
        encode_file(small_tokenizer(), source, out / "text.npy", overwrite=True)
    assert source.read_bytes() == TEXT


@pytest.mark.parametrize("name", ["a.bin", "a", "npy", "a.npy.gz"])
def test_the_destination_must_end_in_npy(source, out, name):
    with pytest.raises(ValueError, match=r"does not end in \.npy"):
        encode_file(small_tokenizer(), source, out / name)


def test_a_bad_source_is_named(tmp_path, out):
    tokenizer = small_tokenizer()
    with pytest.raises(FileNotFoundError, match=r"nothing\.txt' does not exist"):
        encode_file(tokenizer, tmp_path / "nothing.txt", out / "a.npy")
    with pytest.raises(ValueError, match="is a directory"):
        encode_file(tokenizer, tmp_path, out / "a.npy")
    (tmp_path / "empty.txt").touch()
    with pytest.raises(ValueError, match=r"empty\.txt' is empty"):
        encode_file(tokenizer, tmp_path / "empty.txt", out / "a.npy")
    assert os.listdir(out) == []


@pytest.mark.parametrize("options", [{"chunk_size": 0}, {"num_workers": 0}, {"num_workers": -1}])
def test_bad_options_are_named(source, out, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        encode_file(small_tokenizer(), source, out / "a.npy", **options)
    assert os.listdir(out) == []


@pytest.mark.parametrize("num_workers", [1, 2])
def test_strict_names_the_invalid_byte_of_plain_text_and_leaves_no_file(
    source, out, num_workers, backend
):
    message = rf"text\.txt: byte 0xff at offset {TEXT.index(0xFF):,} "
    with pytest.raises(ValueError, match=message):
        encode_file(
            small_tokenizer(backend=backend), Corpus(source, errors="strict"), out / "a.npy",
            num_workers=num_workers, chunk_size=100,
        )  # fmt: skip
    assert os.listdir(out) == []


def test_strict_accepts_valid_utf8(tmp_path, out):
    (tmp_path / "a.txt").write_text(TRAINING_TEXT, encoding="utf-8")
    encode_file(
        small_tokenizer(), Corpus(tmp_path / "a.txt", errors="strict"), out / "a.npy", num_workers=1
    )
    assert len(load_token_file(out / "a.npy")) > 100


def test_an_absent_byte_is_named_with_its_file_and_offset(tmp_path, out, backend):
    tokenizer = Tokenizer({0: b"a", 1: b"\n"}, [], backend=backend)
    (tmp_path / "a.txt").write_text("aaa\naaaaa b", newline="")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress("aaa\u00e9a".encode()))
    (tmp_path / "c.jsonl").write_text('{"text": "aa"}\n{"text": "aa\u00e9a"}\n')
    (tmp_path / "d.txt").write_bytes(b"aa\n\xff\xffaaa\n")
    for name, message in (
        ("a.txt", r"a\.txt: .* 0x20 at offset 9:"),
        ("b.txt.gz", r"b\.txt\.gz: .* 0xc3 at offset 3:"),
        ("c.jsonl", r"c\.jsonl, the line at byte 15: .* 0xc3 "),
        ("d.txt", r"d\.txt: .* 0xef near offset"),  # of U+FFFD, which is not in the file
    ):
        for chunk_size in (1, 1000):
            with pytest.raises(ValueError, match=message):
                encode_file(
                    tokenizer, corpus_of(tmp_path / name), out / "a.npy",
                    num_workers=1, chunk_size=chunk_size,
                )  # fmt: skip
    assert os.listdir(out) == []


def test_a_text_that_gives_no_tokens_is_refused(tmp_path, out):
    (tmp_path / "a.txt").write_text("...")
    with pytest.raises(ValueError, match="no tokens"):
        encode_file(Tokenizer(BYTES, [], pattern=r"\w+"), tmp_path / "a.txt", out / "a.npy")
    assert os.listdir(out) == []
