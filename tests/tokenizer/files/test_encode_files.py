"""encode_file gives the ids of the whole text for all files, chunk sizes, workers and backends."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import re
import sys

import numpy as np
import pytest
import tqdm

import cs336_basics
from cs336_basics._support.errors import InputError, OutputExistsError
from cs336_basics.text import Corpus
from cs336_basics.tokenizer import Tokenizer, encode_file, load_document_starts, load_token_file
from cs336_basics.tokenizer.encoders.backends import BACKENDS
from cs336_basics.tokenizer.files import encode_files
from cs336_basics.tokenizer.files.token_writer import TokenWriter
from tests.errors import rejects
from tests.tokenizer.examples import (
    BYTES,
    END,
    TRAINING_TEXT,
    skip_unless_available,
    small_tokenizer,
)
from tests.tokenizer.files.corpus_files import (
    ROWS,
    TEXT,
    contents,
    corpus_of,
    ids_and_starts,
    metadata_of,
    write_inputs,
)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_token_file_contains_the_ids_of_the_text(source, out, backend):
    tokenizer = small_tokenizer(backend=skip_unless_available(backend))
    metadata = encode_file(tokenizer, source, out / "text.npy", num_workers=1)
    expected = tokenizer.encode(TEXT.decode("utf-8", errors="replace"))
    tokens = load_token_file(
        out / "text.npy", vocab_size=tokenizer.vocab_size, tokenizer_hash=tokenizer.hash()
    )
    assert tokens.tolist() == expected
    assert isinstance(tokens, np.memmap)
    assert (tokens.dtype, tokens.flags.writeable) == (np.dtype(np.uint16), False)
    assert np.load(out / "text.npy").tolist() == expected
    assert metadata == metadata_of(out / "text.npy")
    assert metadata == {
        "tokenizer": None,
        "tokenizer_hash": tokenizer.hash(),
        "vocab_size": tokenizer.vocab_size,
        "dtype": "uint16",
        "num_tokens": len(expected),
        "num_bytes": len(TEXT),
        "bytes_per_token": len(TEXT) / len(expected),
        "source": str(source),
        "library_version": cs336_basics.__version__,
    }
    assert sorted(os.listdir(out)) == ["text.npy"]
    with rejects(None, place="text.npy"):
        load_document_starts(out / "text.npy")


@pytest.mark.parametrize("special_tokens", [(), (END, "a b", "\n\n")])
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"\w+|\W"])
def test_the_token_file_is_the_same_for_every_chunk_size(
    source, out, special_tokens, pattern, backend
):
    tokenizer = small_tokenizer(special_tokens, pattern, backend=backend)
    encode_file(tokenizer, source, out / "a.npy", num_workers=1)
    expected = (out / "a.npy").read_bytes()
    for chunk_size in [1, 2, 3, 7, 64, 1000, len(TEXT) - 1, len(TEXT), len(TEXT) + 1, 2**64 - 1]:
        encode_file(
            tokenizer, source, out / "a.npy", num_workers=1, chunk_size=chunk_size, overwrite=True
        )
        assert (out / "a.npy").read_bytes() == expected


@pytest.mark.parametrize(
    ("highest_id", "dtype"), [(65_535, np.uint16), (65_536, np.uint32), (2**32 - 1, np.uint32)]
)
def test_the_dtype_depends_on_the_highest_id_not_on_the_number_of_ids(
    source, out, highest_id, dtype
):
    vocab = {**BYTES, highest_id: b"xx"}
    tokenizer = Tokenizer(vocab, [(b"x", b"x")], [])
    encode_file(tokenizer, source, out / "a.npy", num_workers=1)
    tokens = load_token_file(out / "a.npy")
    assert tokens.dtype == dtype
    assert tokens.max() == highest_id


# ------------------------------------------------------------------ several files and kinds


@pytest.mark.parametrize(
    ("pattern", "end_of_document"),
    [
        ("gpt2", None),
        ("gpt2", END),
        (r"\w+|\W", "the"),
        *(
            pytest.param(pattern, end, marks=pytest.mark.slow)
            for pattern, end in (("gpt2", "the"), (r"\w+|\W", None), (r"\w+|\W", END))
        ),
    ],
)
def test_files_of_every_kind_become_one_array(tmp_path, out, backend, pattern, end_of_document):
    tokenizer = small_tokenizer((END, "the"), pattern, backend=backend)
    inputs = write_inputs(tmp_path / "in")
    files = [path for path, _ in inputs]
    separator = end_of_document or END
    for order in (files, files[::-1]):
        texts = [text for path in order for text in dict(inputs)[path]]
        ids, starts = ids_and_starts(tokenizer, texts, separator, end_of_document)
        for chunk_size in (1, 40, 1 << 20):
            metadata = encode_file(
                tokenizer, corpus_of(order, column="body"), out / "a.npy",
                num_workers=1 if backend == "python" or chunk_size > 1 else 3,
                chunk_size=chunk_size, overwrite=True,
                document_starts=True, end_of_document=end_of_document,
            )  # fmt: skip
            assert load_token_file(out / "a.npy").tolist() == ids
            found = load_document_starts(out / "a.npy")
            assert (found.dtype, found.tolist()) == (np.int64, starts)
            assert isinstance(found, np.memmap)
            assert not found.flags.writeable
    assert metadata["source"] == [str(path) for path in files[::-1]]
    assert metadata["num_documents"] == len(starts)
    assert metadata["document_separator"] == separator
    assert metadata.get("end_of_document") == end_of_document
    num_rows = 3 * sum(len(row.encode()) for row in ROWS)
    assert metadata["num_bytes"] == 3 * len(TEXT) + num_rows + len(f"the endone{END}two{END}")
    assert metadata == metadata_of(out / "a.npy")


def test_several_workers_write_the_same_files_for_every_kind(tmp_path, out, backend):
    tokenizer = small_tokenizer(backend=backend)
    files = [path for path, _ in write_inputs(tmp_path / "in")]
    corpus = corpus_of(files, column="body")
    request = {"document_starts": True, "end_of_document": END}
    encode_file(tokenizer, corpus, out / "1.npy", num_workers=1, **request)
    encode_file(tokenizer, corpus, out / "2.npy", num_workers=3, chunk_size=300, **request)
    assert (out / "1.npy").read_bytes() == (out / "2.npy").read_bytes()


def test_random_documents_give_the_same_files_with_every_backend(tmp_path, out):
    chooser = random.Random(4)
    parts = ["the cat", " sat", "\n", "  ", "\u00e9\u597d", END, END + END, "", "\r\n", "<|"]
    for round_ in range(15):
        files = []
        for number in range(chooser.randint(1, 6)):
            documents = [
                "".join(chooser.choices(parts, k=chooser.randint(0, 8)))
                for _ in range(chooser.randint(1, 12))
            ]
            path = tmp_path / f"{number}.{chooser.choice(['txt', 'txt.gz', 'jsonl'])}"
            content = "".join(documents).encode()
            if path.suffix == ".jsonl":
                content = "".join(json.dumps({"text": d}) + "\n" for d in documents).encode()
            path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
            files.append(path)
        (tmp_path / "last.txt").write_text("x")
        request = {
            "overwrite": True, "document_starts": True,
            "end_of_document": chooser.choice([None, END]),
        }  # fmt: skip
        results = []
        corpus = corpus_of([*files, tmp_path / "last.txt"])
        for backend in ("python", "native", "native"):
            encode_file(
                small_tokenizer(backend=skip_unless_available(backend)), corpus, out / "a.npy",
                num_workers=1 if backend == "python" else 2,
                chunk_size=chooser.randint(1, 60), **request,
            )  # fmt: skip
            results.append(contents(out))
        assert results[0] == results[1] == results[2], f"round {round_}"


def test_no_token_spans_two_files(tmp_path, out, backend):
    tokenizer = Tokenizer({**BYTES, 256: b"ab"}, [(b"a", b"b")], backend=backend)
    (tmp_path / "1.txt").write_text("xa")
    (tmp_path / "2.txt").write_text("b")
    files = [tmp_path / "1.txt", tmp_path / "2.txt"]
    encode_file(tokenizer, files, out / "a.npy", num_workers=1, document_starts=True)
    assert load_token_file(out / "a.npy").tolist() == [120, 97, 98]
    assert load_document_starts(out / "a.npy").tolist() == [0, 2]


def test_a_lone_surrogate_in_a_row_is_replaced_or_rejected(tmp_path, out, backend):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n{"text": "b\\ud800"}\n')
    tokenizer = small_tokenizer(backend=backend)
    encode_file(tokenizer, Corpus(path, field="text"), out / "a.npy", num_workers=1)
    assert load_token_file(out / "a.npy").tolist() == tokenizer.encode(
        "ab\N{REPLACEMENT CHARACTER}"
    )
    corpus = Corpus(path, field="text", errors="strict")
    with rejects(None, "U+D800", place="line at byte 14"):
        encode_file(tokenizer, corpus, out / "b.npy", num_workers=1)


# ------------------------------------------------------------------ document starts


def test_a_document_starts_after_text_that_the_pattern_does_not_match(tmp_path, out, backend):
    tokenizer = Tokenizer(BYTES, [], [END], pattern="[a-z]+", backend=backend)
    files = [tmp_path / "1.txt", tmp_path / "2.txt"]
    for path in files:
        path.write_text("ab" + " 1" * 30)
    # With some of these sizes, a batch contains the end of the first file and the second file.
    for chunk_size in range(25, 40):
        encode_file(
            tokenizer, files, out / "a.npy", num_workers=1, overwrite=True,
            chunk_size=chunk_size, document_starts=True, end_of_document=END,
        )  # fmt: skip
        document = [*("ab" + " 1" * 30).encode(), 256]
        assert load_token_file(out / "a.npy").tolist() == document * 2, chunk_size
        assert load_document_starts(out / "a.npy").tolist() == [0, len(document)], chunk_size


def test_without_a_separator_every_file_is_a_document(source, out):
    tokenizer = small_tokenizer(("\n\n",))
    metadata = encode_file(
        tokenizer, [source, source], out / "a.npy", num_workers=1, document_starts=True
    )
    assert (metadata["num_documents"], metadata["document_separator"]) == (2, None)
    starts = load_document_starts(out / "a.npy")
    assert starts.tolist() == [0, metadata["num_tokens"] // 2]


def test_the_progress_bar_counts_the_bytes_of_the_stored_files(tmp_path, out, monkeypatch, backend):
    bars = []

    class Bar(tqdm.tqdm):
        def __init__(self, **options):
            super().__init__(**{**options, "file": io.StringIO(), "disable": False})
            self.options, self.steps = options, []
            bars.append(self)

        def update(self, n):
            self.steps.append(n)
            return super().update(n)

    monkeypatch.setattr(tqdm, "tqdm", Bar)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for path, texts in write_inputs(tmp_path):
        if not texts:
            continue
        encode_file(
            small_tokenizer(backend=backend), corpus_of(path, column="body"),
            out / "a.npy", num_workers=1, overwrite=True, progress=True, chunk_size=40,
        )  # fmt: skip
        bar = bars.pop()
        assert bar.options["total"] == path.stat().st_size
        assert sum(bar.steps) == path.stat().st_size
        assert min(bar.steps) >= 0
        if path.name in ("a.txt", "e.jsonl", "i.parquet"):
            assert len([step for step in bar.steps if step]) > 3
    encode_file(small_tokenizer(), tmp_path / "a.txt", out / "b.npy", num_workers=1)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    encode_file(small_tokenizer(), tmp_path / "a.txt", out / "c.npy", num_workers=1, progress=True)
    assert bars == []


@pytest.mark.parametrize(
    ("name", "content", "fields"),
    [
        ("a.txt.gz", gzip.compress(TEXT)[:-20], (None, "a.txt.gz")),
        ("a.jsonl", b'{"text": "a"}\n{"text": \n', (None, "a.jsonl, line 2")),
        ("a.jsonl", b'{"text": "a"}\n{"txt": ""}', (None, "line 2", "'text'")),
        ("a.jsonl.gz", b"no gzip", (None, "a.jsonl.gz")),
        ("a.parquet", b"no parquet", (None, "a.parquet")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("num_workers", [1, 2])
def test_the_error_names_a_damaged_source(tmp_path, out, name, content, fields, num_workers):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(content)
    (tmp_path / "0.txt").write_bytes(TEXT)
    with rejects(*fields):
        encode_file(
            small_tokenizer(),
            corpus_of([tmp_path / "0.txt", tmp_path / name]),
            out / "a.npy", num_workers=num_workers, chunk_size=100,
        )  # fmt: skip
    assert os.listdir(out) == []


def test_missing_fields_and_tokens_are_reported_before_encoding(tmp_path, out, monkeypatch):
    inputs = dict(write_inputs(tmp_path))
    monkeypatch.setattr(encode_files, "open_token_writer", None)  # never called
    for name, columns, options, fields in (
        ("e.jsonl", {}, {}, ("field",)),
        ("i.parquet", {}, {}, ("column",)),
        ("i.parquet", {"column": "text"}, {}, ("column", "'text'")),
        ("a.txt", {}, {"end_of_document": "<s>"}, ("end_of_document", "'<s>'")),
    ):
        assert tmp_path / name in inputs
        with rejects(*fields):
            encode_file(
                small_tokenizer(), Corpus([tmp_path / "a.txt", tmp_path / name], **columns),
                out / "a.npy", **options,
            )  # fmt: skip
    assert os.listdir(out) == []


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.parquet"])
@pytest.mark.parametrize("left", [None, 10_000])
def test_a_source_that_changes_while_it_is_read_is_rejected(
    tmp_path, out, monkeypatch, backend, name, left
):
    path = tmp_path / name
    line = b"words of a line\n" if name == "a.txt" else b'{"text": "words of a line"}\n'
    if name == "a.parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        import pyarrow

        rows = [random.Random(i).randbytes(500).hex() for i in range(1000)]
        parquet.write_table(pyarrow.table({"text": rows}), path, row_group_size=50)
    else:
        path.write_bytes(line * 10_000)
    write = TokenWriter.write

    def shorten(*arguments):
        if left is None:
            path.unlink(missing_ok=True)
        else:
            os.truncate(path, left)
        write(*arguments)

    # An open file can still be read after it is deleted.
    monkeypatch.setattr(TokenWriter, "write", shorten)
    corpus = corpus_of([path, path])
    with pytest.raises((InputError, FileNotFoundError), match=re.escape(name)) as caught:
        encode_file(
            small_tokenizer(backend=backend), corpus, out / "a.npy", num_workers=1, chunk_size=4096
        )
    if left is not None and name == "a.txt":
        message = r"ended at byte 10,000, but must have at least [\d,]+ bytes"
        assert re.search(message, str(caught.value))
    assert os.listdir(out) == []


@pytest.mark.parametrize("chunk_size", [7, 1 << 20])
def test_strict_reports_the_offset_of_an_invalid_byte_in_every_kind_of_file(
    tmp_path, out, backend, chunk_size
):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    text = b"words of a text \xc3\xa9 and then\n\xff\n"
    offset = text.index(0xFF)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text))
    (tmp_path / "d.txt").write_bytes(text)
    (tmp_path / "b.jsonl").write_bytes(b'{"text": "a"}\n{"text": "\xff"}\n')
    table = pyarrow.table({"text": pyarrow.array([b"a", text])})
    parquet.write_table(table, tmp_path / "c.parquet")
    for name, where, at in (
        ("a.txt.gz", "", offset),
        ("d.txt", "", offset),
        ("b.jsonl", ", line 2", 10),
        ("c.parquet", ", row 1 of row group 0", offset),
    ):
        with rejects(None, "0xff", f"offset {at}", place=name + where):
            encode_file(
                small_tokenizer(backend=backend),
                corpus_of(tmp_path / name, errors="strict"),
                out / "a.npy", num_workers=1, chunk_size=chunk_size,
            )  # fmt: skip
    assert os.listdir(out) == []


def test_existing_files_are_kept_without_overwrite(source, out):
    tokenizer = small_tokenizer()
    (out / "a.npy").write_text("mine")
    with rejects(None, "a.npy", kind=OutputExistsError):
        encode_file(tokenizer, source, out / "a.npy")
    assert (out / "a.npy").read_text() == "mine"
    encode_file(tokenizer, source, out / "a.npy", num_workers=1, overwrite=True)
    assert len(load_token_file(out / "a.npy")) > 100


def test_the_source_is_never_replaced(out):
    source = out / "text.txt"
    source.write_bytes(TEXT)
    os.link(source, out / "text.npy")
    with rejects(None, out / "text.npy"):
        encode_file(small_tokenizer(), source, out / "text.npy", overwrite=True)
    assert source.read_bytes() == TEXT


@pytest.mark.parametrize("name", ["a.bin", "a", "npy", "a.npy.gz"])
def test_the_destination_must_end_in_npy(source, out, name):
    with rejects("destination", ".npy"):
        encode_file(small_tokenizer(), source, out / name)


def test_strict_accepts_valid_utf8(tmp_path, out):
    (tmp_path / "a.txt").write_text(TRAINING_TEXT, encoding="utf-8")
    encode_file(
        small_tokenizer(), Corpus(tmp_path / "a.txt", errors="strict"), out / "a.npy", num_workers=1
    )
    assert len(load_token_file(out / "a.npy")) > 100


def test_the_error_names_the_file_and_offset_of_an_absent_byte(tmp_path, out):
    tokenizer = Tokenizer({0: b"a", 1: b"\n"}, [])
    (tmp_path / "a.txt").write_text("aaa\naaaaa b", newline="")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress("aaa\u00e9a".encode()))
    (tmp_path / "c.jsonl").write_text('{"text": "aa"}\n{"text": "aa\u00e9a"}\n')
    (tmp_path / "d.txt").write_bytes(b"aa\n\xff\xffaaa\n")
    for name, fields in (
        ("a.txt", (None, "a.txt", "0x20", 9)),
        ("b.txt.gz", (None, "b.txt.gz", "0xc3", 3)),
        ("c.jsonl", (None, "c.jsonl", 15, "0xc3")),
        ("d.txt", (None, "d.txt", "0xef")),  # U+FFFD is not in the file
    ):
        for chunk_size in (1, 1000):
            with rejects(*fields):
                encode_file(
                    tokenizer, corpus_of(tmp_path / name), out / "a.npy",
                    num_workers=1, chunk_size=chunk_size,
                )  # fmt: skip
    assert os.listdir(out) == []


def test_a_text_without_tokens_is_rejected(tmp_path, out):
    (tmp_path / "a.jsonl").write_text('{"text": ""}\n{"text": null}\n')
    with rejects(None, place="a.jsonl"):
        encode_file(small_tokenizer(), Corpus(tmp_path / "a.jsonl", field="text"), out / "a.npy")
    assert os.listdir(out) == []


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl", "a.jsonl.gz"])
def test_a_long_text_without_a_safe_cut_is_rejected(tmp_path, out, backend, name):
    data = b"x" * (3 << 20) if "txt" in name else b'{"text": "' + b"x" * (3 << 20) + b'"}\n'
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    options = {"field": "text"} if "jsonl" in name else {}
    tokenizer = small_tokenizer(backend=backend)
    corpus = Corpus(tmp_path / name, max_piece_bytes=1 << 20, **options)
    with rejects(None, name, "1,048,576"):
        encode_file(tokenizer, corpus, out / "a.npy", num_workers=1)
    assert os.listdir(out) == []
    corpus = Corpus(tmp_path / name, max_piece_bytes=4 << 20, **options)
    if backend == "native":  # the Python backend is too slow for such a long word
        assert encode_file(tokenizer, corpus, out / "a.npy")["num_bytes"] == 3 << 20
