"""Token files: the ids of the whole text however it is encoded, and what is refused."""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import cs336_basics
import cs336_basics.tokenizer.token_files as token_files
import cs336_basics.tokenizer.tokenizer as tokenizer_module
from cs336_basics import _progress
from cs336_basics.pretokenization.corpus import Corpus
from cs336_basics.pretokenization.readers import TextBlock
from cs336_basics.pretokenization.splitter import split_special_tokens
from cs336_basics.tokenizer import (
    Tokenizer,
    encode_file,
    load_document_starts,
    load_token_file,
)
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


@pytest.fixture(params=["native", "python"])
def encoder(request, monkeypatch):
    """Tokenizers that are made in the test are those of compiled code, or without it."""
    if request.param == "python":
        monkeypatch.setattr(tokenizer_module, "_encoder", None)
    elif tokenizer_module._encoder is None:
        pytest.skip("the compiled encoder is not built")
    return request.param


@pytest.fixture
def out(tmp_path):
    directory = tmp_path / "out"
    directory.mkdir()
    return directory


def test_a_token_file_holds_the_ids_of_the_text(source, out, encoder):
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
def test_the_bytes_are_the_same_for_every_chunk_size(source, out, special_tokens, pattern, encoder):
    tokenizer = small_tokenizer(special_tokens, pattern)
    encode_file(tokenizer, source, out / "a.npy", num_workers=1)
    expected = (out / "a.npy").read_bytes()
    for chunk_size in [1, 2, 3, 7, 64, 1000, len(TEXT) - 1, len(TEXT), len(TEXT) + 1, 2**64 - 1]:
        encode_file(
            tokenizer, source, out / "a.npy", num_workers=1, chunk_size=chunk_size, overwrite=True
        )
        assert (out / "a.npy").read_bytes() == expected


def test_the_bytes_are_the_same_for_every_number_of_workers(source, out, encoder):
    tokenizer = small_tokenizer()
    for num_workers in (1, 2, 3):
        name = out / f"{num_workers}.npy"
        encode_file(tokenizer, source, name, num_workers=num_workers, chunk_size=500)
    assert (out / "1.npy").read_bytes() == (out / "2.npy").read_bytes()
    assert (out / "1.npy").read_bytes() == (out / "3.npy").read_bytes()
    assert (out / "1.json").read_bytes() == (out / "2.json").read_bytes()


def test_a_worker_reads_the_tokenizer_once(tmp_path, source):
    small_tokenizer().save(tmp_path / "tokenizer")
    token_files._load_once.cache_clear()
    options = token_files._Options(Corpus([source]).only([]), 1, None, None)
    batch = token_files._Batch([TextBlock("the cat", True, "a.txt", None, 7)], 7)
    for _ in range(5):
        encoded = token_files._encode_batch_in_worker(str(tmp_path / "tokenizer"), batch, options)
        assert encoded.ids.tolist() == small_tokenizer().encode("the cat")
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


# ------------------------------------------------------------------ many files, of many kinds

ROWS = [
    "It's the cat.", "", "ate" + END + "the rat", END, "  ", "ends" + END, END + "begins",
    "\u732b\u306f\u9f20 \U0001f389", "x" * 300 + "\n\n", "a b" * 50, "last",
]  # fmt: skip


def write_inputs(directory: Path) -> list[tuple[Path, list[str]]]:
    """Write files of every kind; return them with the texts of their documents."""
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    zstd = zstandard()
    directory.mkdir(exist_ok=True)
    decoded = TEXT.decode("utf-8", errors="replace")
    lines = "".join(json.dumps({"text": row, "id": 7}) + "\n" for row in ROWS).encode()
    files = {
        "a.txt": TEXT,
        "b.txt.gz": gzip.compress(TEXT[:500]) + gzip.compress(TEXT[500:]),
        "c.txt": b"",
        "d.txt.zst": zstd.compress(TEXT),
        "e.jsonl": lines,
        "f.jsonl.gz": gzip.compress(lines),
        "g.txt": b"the end",
        "h.txt": ("one" + END + "two" + END).encode(),
    }
    for name, content in files.items():
        (directory / name).write_bytes(content)
    table = pyarrow.table({"id": range(len(ROWS) + 1), "body": [*ROWS, None]})
    parquet.write_table(table, directory / "i.parquet", row_group_size=3)
    documents = {
        "a.txt": [decoded], "b.txt.gz": [decoded], "c.txt": [], "d.txt.zst": [decoded],
        "e.jsonl": ROWS, "f.jsonl.gz": ROWS, "g.txt": ["the end"],
        "h.txt": ["one" + END + "two" + END], "i.parquet": ROWS,
    }  # fmt: skip
    return [(directory / name, texts) for name, texts in documents.items()]


def zstandard():
    try:
        from compression import zstd
    except ImportError:
        zstd = pytest.importorskip("backports.zstd")
    return zstd


def plainly(tokenizer, texts, separator, end_of_document):
    """Return the ids of documents and where they begin, in the plainest way."""
    ids, starts = [], []
    for text in texts:
        begin = len(ids)
        if not tokenizer.encode(text):
            continue
        ends = True
        for piece, _ in split_special_tokens(text, tokenizer.special_tokens):
            piece_ids = tokenizer.encode(piece)
            if piece_ids and ends:
                starts.append(len(ids))
            ids += piece_ids
            ends = piece == separator if piece_ids else ends
        if end_of_document is not None:
            end_id = tokenizer.special_token_id(end_of_document)
            if ids[begin:] and ids[-1] != end_id:
                ids.append(end_id)
    return ids, starts


@pytest.mark.parametrize("pattern", ["gpt2", r"\w+|\W"])
@pytest.mark.parametrize("end_of_document", [None, END, "the"])
def test_files_of_every_kind_become_one_array(tmp_path, out, encoder, pattern, end_of_document):
    tokenizer = small_tokenizer((END, "the"), pattern)
    inputs = write_inputs(tmp_path / "in")
    files = [path for path, _ in inputs]
    separator = end_of_document or END
    for order in (files, files[::-1]):
        texts = [text for path in order for text in dict(inputs)[path]]
        ids, starts = plainly(tokenizer, texts, separator, end_of_document)
        for chunk_size in (1, 40, 1 << 20):
            metadata = encode_file(
                tokenizer, order, out / "a.npy",
                num_workers=1 if encoder == "python" or chunk_size > 1 else 3,
                chunk_size=chunk_size, overwrite=True, field="text", column="body",
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
    assert metadata == json.loads((out / "a.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("num_workers", [2, 3])
def test_files_of_every_kind_with_several_workers(tmp_path, out, encoder, num_workers):
    tokenizer = small_tokenizer()
    files = [path for path, _ in write_inputs(tmp_path / "in")]
    request = {"field": "text", "column": "body", "document_starts": True, "end_of_document": END}
    encode_file(tokenizer, files, out / "1.npy", num_workers=1, **request)
    encode_file(tokenizer, files, out / "2.npy", num_workers=num_workers, chunk_size=300, **request)
    for ending in (".npy", ".json", ".starts.npy"):
        assert (out / f"1{ending}").read_bytes() == (out / f"2{ending}").read_bytes()


def test_random_documents_with_and_without_the_compiled_encoder(tmp_path, out, monkeypatch):
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
            "field": "text", "overwrite": True, "document_starts": True,
            "end_of_document": chooser.choice([None, END]),
        }  # fmt: skip
        results = []
        for number in range(3):
            with monkeypatch.context() as patch:
                if number == 0:
                    patch.setattr(tokenizer_module, "_encoder", None)
                encode_file(
                    small_tokenizer(), [*files, tmp_path / "last.txt"], out / "a.npy",
                    num_workers=1 if number == 0 else 2,
                    chunk_size=chooser.randint(1, 60), **request,
                )  # fmt: skip
            results.append(contents(out))
        assert results[0] == results[1] == results[2], f"round {round_}"


def test_a_pattern_names_files_in_order(tmp_path, out):
    tokenizer = small_tokenizer()
    for name in ("b", "a", "c"):
        (tmp_path / f"{name}.txt").write_text(name)
    metadata = encode_file(
        tokenizer, [tmp_path / "c.txt", str(tmp_path / "[ab].*")], out / "a.npy", num_workers=1
    )
    assert load_token_file(out / "a.npy").tolist() == tokenizer.encode("cab")
    assert [os.path.basename(name) for name in metadata["source"]] == ["c.txt", "a.txt", "b.txt"]
    metadata = encode_file(tokenizer, [tmp_path / "a.txt"], out / "b.npy", num_workers=1)
    assert metadata["source"] == str(tmp_path / "a.txt")


def test_files_do_not_join(tmp_path, out, encoder):
    tokenizer = Tokenizer({**BYTES, 256: b"ab"}, [(b"a", b"b")])
    (tmp_path / "1.txt").write_text("xa")
    (tmp_path / "2.txt").write_text("b")
    files = [tmp_path / "1.txt", tmp_path / "2.txt"]
    encode_file(tokenizer, files, out / "a.npy", num_workers=1, document_starts=True)
    assert load_token_file(out / "a.npy").tolist() == [120, 97, 98]
    assert load_document_starts(out / "a.npy").tolist() == [0, 2]


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
    (tmp_path / name).write_bytes(content)
    (tmp_path / "0.txt").write_bytes(TEXT)
    with pytest.raises(ValueError, match=message):
        encode_file(
            small_tokenizer(), [tmp_path / "0.txt", tmp_path / name], out / "a.npy",
            field="text", column="text", num_workers=num_workers, chunk_size=100,
        )  # fmt: skip
    assert os.listdir(out) == []


def test_what_is_missing_is_noticed_before_the_work(tmp_path, out, monkeypatch):
    inputs = dict(write_inputs(tmp_path))
    monkeypatch.setattr(token_files, "_new_token_file", None)  # is not reached
    for name, request, message in (
        ("e.jsonl", {}, "which field"),
        ("i.parquet", {}, "has the columns id, body, and nothing says which"),
        ("i.parquet", {"column": "text"}, "has the columns id, body, but not 'text'"),
        ("a.txt", {"end_of_document": "<s>"}, "'<s>' is not a special token"),
    ):
        assert tmp_path / name in inputs
        with pytest.raises(ValueError, match=message):
            encode_file(
                small_tokenizer(), [tmp_path / "a.txt", tmp_path / name], out / "a.npy", **request
            )
    assert os.listdir(out) == []


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.parquet"])
@pytest.mark.parametrize("left", [None, 10_000])
def test_a_source_that_changes_while_it_is_read_is_noticed(
    tmp_path, out, monkeypatch, encoder, name, left
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
    write = token_files._TokenWriter.write

    def shorten(*arguments):
        if left is None:
            path.unlink(missing_ok=True)
        else:
            os.truncate(path, left)
        write(*arguments)

    # A file that is open can still be read when its name is gone.
    monkeypatch.setattr(token_files._TokenWriter, "write", shorten)
    request = {"field": "text", "column": "text", "num_workers": 1, "chunk_size": 4096}
    sources = [path, path]
    with pytest.raises((ValueError, FileNotFoundError), match=re.escape(name)) as caught:
        encode_file(small_tokenizer(), sources, out / "a.npy", **request)
    if left is not None and name == "a.txt":
        assert re.search(r"ended at byte 10,000 where bytes up to [\d,]+ were", str(caught.value))
    assert os.listdir(out) == []


def test_a_surrogate_in_a_row(tmp_path, out, encoder):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n{"text": "b\\ud800"}\n')
    tokenizer = small_tokenizer()
    encode_file(tokenizer, path, out / "a.npy", field="text", num_workers=1)
    assert load_token_file(out / "a.npy").tolist() == tokenizer.encode(
        "ab\N{REPLACEMENT CHARACTER}"
    )
    with pytest.raises(ValueError, match=r"the line at byte 14: the lone surrogate U\+D800"):
        encode_file(tokenizer, path, out / "b.npy", field="text", errors="strict", num_workers=1)


@pytest.mark.parametrize("chunk_size", [7, 1 << 20])
def test_strict_names_the_place_in_files_of_every_kind(tmp_path, out, encoder, chunk_size):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    text = b"words of a text \xc3\xa9 and then\n\xff\n"
    place = text.index(0xFF)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text))
    (tmp_path / "b.jsonl").write_bytes(b'{"text": "a"}\n{"text": "\xff"}\n')
    table = pyarrow.table({"text": pyarrow.array([b"a", text])})
    parquet.write_table(table, tmp_path / "c.parquet")
    for name, message in (
        ("a.txt.gz", rf"a\.txt\.gz: byte 0xff at offset {place} is not"),
        ("b.jsonl", r"b\.jsonl, the line at byte 14: not valid UTF-8"),
        ("c.parquet", rf"row 1 of row group 0: byte 0xff at offset {place} is not"),
    ):
        with pytest.raises(ValueError, match=message):
            encode_file(
                small_tokenizer(), tmp_path / name, out / "a.npy", errors="strict",
                field="text", column="text", num_workers=1, chunk_size=chunk_size,
            )  # fmt: skip
    assert os.listdir(out) == []


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="there it is left to the system")
def test_what_is_written_is_sent_to_the_disk_once(source, out, monkeypatch):
    ranges = []
    monkeypatch.setattr(token_files, "_WRITE_BACK_SIZE", 100)
    monkeypatch.setattr(
        os, "posix_fadvise", lambda _, start, size, __: ranges.append((start, size))
    )
    encode_file(small_tokenizer(), source, out / "a.npy", num_workers=1, chunk_size=50)
    assert len(ranges) > 3
    assert min(size for _, size in ranges) >= 100
    ends = [start + size for start, size in ranges]
    header = (out / "a.npy").stat().st_size - load_token_file(out / "a.npy").nbytes
    assert [start for start, _ in ranges] == [header, *ends[:-1]]
    assert ends[-1] <= (out / "a.npy").stat().st_size


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="there it is left to the system")
def test_a_file_system_that_takes_no_advice_is_written_to(source, out, monkeypatch):
    def refuse(*_):
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(token_files, "_WRITE_BACK_SIZE", 100)
    monkeypatch.setattr(os, "posix_fadvise", refuse)
    tokenizer = small_tokenizer()
    encode_file(tokenizer, source, out / "a.npy", num_workers=1, chunk_size=50)
    expected = tokenizer.encode_array(source.read_bytes())
    assert load_token_file(out / "a.npy").tolist() == expected.tolist()


def test_a_large_document_is_encoded_like_any_other(tmp_path, out, monkeypatch):
    # In this thread, where Ctrl-C is seen.
    monkeypatch.setattr(token_files, "_LARGE_BATCH", 50)
    threads = set()
    encode_batch = token_files._encode_batch

    def watch(*arguments):
        threads.add(threading.current_thread() is threading.main_thread())
        return encode_batch(*arguments)

    monkeypatch.setattr(token_files, "_encode_batch", watch)
    rows = ["a b" * number for number in range(60)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    encode_file(
        small_tokenizer(), tmp_path / "a.jsonl", out / "a.npy",
        field="text", num_workers=2, chunk_size=1,
    )  # fmt: skip
    assert load_token_file(out / "a.npy").tolist() == [
        token_id for row in rows for token_id in small_tokenizer().encode(row)
    ]
    assert threads == {True, False}


# ------------------------------------------------------------------ document starts


def test_document_starts_are_written_only_when_asked_for(source, out):
    tokenizer = small_tokenizer()
    metadata = encode_file(tokenizer, source, out / "a.npy", num_workers=1)
    assert "num_documents" not in metadata
    with pytest.raises(ValueError, match=r"a\.npy was encoded without document starts"):
        load_document_starts(out / "a.npy")
    encode_file(
        tokenizer, source, out / "a.npy", num_workers=1, overwrite=True, document_starts=True
    )
    starts = load_document_starts(out / "a.npy")
    tokens = load_token_file(out / "a.npy")
    end = tokenizer.special_token_id(END)
    assert starts.tolist() == [0, *(np.flatnonzero(tokens == end) + 1).tolist()]
    # Those of a file that is replaced do not stay beside the new one; what is not ours does.
    encode_file(tokenizer, source, out / "a.npy", num_workers=1, overwrite=True)
    assert sorted(os.listdir(out)) == ["a.json", "a.npy"]
    (out / "a.starts.npy").write_text("mine")
    encode_file(tokenizer, source, out / "a.npy", num_workers=1, overwrite=True)
    assert (out / "a.starts.npy").read_text() == "mine"
    (out / "a.npy").unlink()
    (out / "a.json").unlink()
    with pytest.raises(FileExistsError, match=r"a\.starts\.npy exists"):
        encode_file(tokenizer, source, out / "a.npy", num_workers=1, document_starts=True)


def test_without_a_separator_files_are_documents(source, out):
    tokenizer = small_tokenizer(("\n\n",))
    metadata = encode_file(
        tokenizer, [source, source], out / "a.npy", num_workers=1, document_starts=True
    )
    assert (metadata["num_documents"], metadata["document_separator"]) == (2, None)
    starts = load_document_starts(out / "a.npy")
    assert starts.tolist() == [0, metadata["num_tokens"] // 2]


def test_damaged_document_starts_are_refused(source, out):
    encode_file(small_tokenizer(), source, out / "a.npy", num_workers=1, document_starts=True)
    path = out / "a.starts.npy"
    whole = np.load(path)
    for array, message in (
        (whole[:-1], "do not belong together"),
        (whole.astype(np.int32), "do not belong together"),
        (whole + 1, "does not fit"),
        (np.append(whole[:-1], 10**9), "does not fit"),
        (whole.reshape(1, -1), "one row"),
    ):
        np.save(path, array)
        with pytest.raises(ValueError, match=message):
            load_document_starts(out / "a.npy")
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="not a whole"):
        load_document_starts(out / "a.npy")
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.starts\.npy does not exist"):
        load_document_starts(out / "a.npy")


# ------------------------------------------------------------------ interrupted, killed, disk full


@contextlib.contextmanager
def alarm_raises_keyboard_interrupt():
    """Let SIGALRM do what Ctrl-C does."""

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def huge_word():
    """Return 60 MB without a place to cut, which would take seconds."""
    return bytes(random.Random(5).choices(b"!.<|>", k=1 << 20)) * 60


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals are those of POSIX")
def test_ctrl_c_ends_the_encoding_of_a_huge_word_in_text(tmp_path, out, monkeypatch):
    native = pytest.importorskip("cs336_basics.tokenizer._encoder")
    (tmp_path / "a.txt").write_bytes(huge_word())
    encodings = []
    file_encoding = native.FileEncoding

    def watch(*arguments):
        encodings.append(file_encoding(*arguments))
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        return encodings[-1]

    monkeypatch.setattr(native, "FileEncoding", watch)
    with alarm_raises_keyboard_interrupt(), pytest.raises(KeyboardInterrupt):
        encode_file(small_tokenizer(), tmp_path / "a.txt", out / "a.npy", num_workers=1)
    # The first block, to which all belongs, was ended, not waited for.
    assert encodings[0].num_encoded == 0
    assert os.listdir(out) == []


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals are those of POSIX")
def test_ctrl_c_ends_the_encoding_of_a_huge_word_in_a_row(tmp_path, out, monkeypatch):
    if tokenizer_module._encoder is None:
        pytest.skip("the compiled encoder is not built")

    outcomes = []
    map_in_threads = token_files._map_in_threads

    def watch(function, *rest, **options):
        def watched(item):
            if not outcomes:
                signal.setitimer(signal.ITIMER_REAL, 0.3)
            outcomes.append("begun")
            try:
                return function(item)
            except BaseException as error:
                outcomes.append(type(error))
                raise

        return map_in_threads(watched, *rest, **options)

    monkeypatch.setattr(token_files, "_map_in_threads", watch)
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "%s"}' % huge_word())
    with alarm_raises_keyboard_interrupt(), pytest.raises(KeyboardInterrupt):
        encode_file(
            small_tokenizer(), tmp_path / "a.jsonl", out / "a.npy", field="text", num_workers=2
        )
    assert outcomes.count(KeyboardInterrupt) == 1  # the encoding was ended, not waited for
    assert os.listdir(out) == []


@pytest.mark.skipif(sys.platform == "win32", reason="limits are those of POSIX")
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_a_full_disk_is_named_and_nothing_stays(tmp_path, out, name):
    # A limit on the size of a file stands for the disk: writing fails in the same places.
    import resource

    text = TRAINING_TEXT * 2000
    lines = "".join(json.dumps({"text": text[i : i + 500]}) + "\n" for i in range(0, 10**6, 500))
    (tmp_path / name).write_text(lines if name == "a.jsonl" else text, encoding="utf-8")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(OSError, match=r"not written: '.*out.a\.npy'$"):
            encode_file(
                small_tokenizer(), tmp_path / name, out / "a.npy",
                field="text", num_workers=2, chunk_size=10_000,
            )  # fmt: skip
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(out) == []


KILLED = """
import itertools, sys
from cs336_basics.tokenizer import Tokenizer, encode_file
directory, tokenizer = sys.argv[1], Tokenizer.from_directory(sys.argv[2])
for number in itertools.count():
    # Two texts of the same length, so that the metadata of one would do for the other.
    for name in ("a.txt", "b.txt"):
        encode_file(
            tokenizer, f"{directory}/{name}", f"{directory}/out/t.npy", num_workers=2,
            chunk_size=1000, overwrite=True, document_starts=number % 2 == 0,
        )
        if number == 0:
            print("written", flush=True)
"""


CRASHED = """
import os, shutil, signal, sys
from cs336_basics.tokenizer import Tokenizer, encode_file
directory, tokenizer = sys.argv[1], Tokenizer.from_directory(sys.argv[2])
had_starts, document_starts = sys.argv[3] == "True", sys.argv[4] == "True"

def crash_at(step, name):
    function = getattr(os, name)
    def counted(*arguments, **options):
        calls.append(name)
        if len(calls) == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)
    setattr(os, name, counted)

for step in range(1, 1000):
    shutil.rmtree(f"{directory}/{step}", ignore_errors=True)
    encode_file(
        tokenizer, f"{directory}/a.txt", f"{directory}/{step}/t.npy", document_starts=had_starts
    )
    child = os.fork()
    if child == 0:
        calls = []
        for name in ("fsync", "unlink", "replace", "chmod"):
            crash_at(step, name)
        encode_file(
            tokenizer, f"{directory}/b.txt", f"{directory}/{step}/t.npy", overwrite=True,
            document_starts=document_starts,
        )
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        print(step)
        break
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("had_starts", [False, True])
@pytest.mark.parametrize("document_starts", [False, True])
def test_a_crash_at_any_step_leaves_a_whole_file_or_none(tmp_path, had_starts, document_starts):
    tokenizer = small_tokenizer()
    tokenizer.save(tmp_path / "tokenizer")
    # Two texts of the same length, so that the metadata of one would do for the other.
    texts = {"a.txt": ("ab" + END) * 300, "b.txt": ("b" + END + "a") * 300}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    assert len({len(tokenizer.encode(text)) for text in texts.values()}) == 1
    command = [sys.executable, "-c", CRASHED, str(tmp_path), str(tmp_path / "tokenizer")]
    done = subprocess.run(
        [*command, str(had_starts), str(document_starts)],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    seen = []
    for step in range(1, int(done.stdout) + 1):
        path = tmp_path / str(step) / "t.npy"
        try:
            tokens = load_token_file(path, tokenizer_hash=tokenizer.hash())
        except FileNotFoundError:
            seen.append("none")
            continue
        metadata = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        name = os.path.basename(metadata["source"])
        seen.append(name)
        ids, starts = plainly(tokenizer, [texts[name]], END, None)
        assert tokens.tolist() == ids
        if "num_documents" in metadata:
            assert load_document_starts(path).tolist() == starts
        else:
            with pytest.raises(ValueError, match="without document starts"):
                load_document_starts(path)
    # First the old file, then none for a moment, then the new one.
    assert [name for name, _ in itertools.groupby(seen)] == ["a.txt", "none", "b.txt"]
    assert seen.count("a.txt") > 2


def kill_and_look(tmp_path, out, num_kills):
    tokenizer = small_tokenizer()
    tokenizer.save(tmp_path / "tokenizer")
    texts = {"a.txt": ("ab" + END) * 3000, "b.txt": ("ba" + END) * 3000}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    assert len({len(tokenizer.encode(text)) for text in texts.values()}) == 1
    chooser = random.Random(num_kills)
    seen = set()
    for _ in range(num_kills):
        command = [sys.executable, "-c", KILLED, str(tmp_path), str(tmp_path / "tokenizer")]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
        ) as process:
            assert process.stdout.readline() == b"written\n"
            time.sleep(chooser.uniform(0, 0.05))
            process.kill()
        try:
            tokens = load_token_file(out / "t.npy", tokenizer_hash=tokenizer.hash())
        except FileNotFoundError:
            seen.add(None)
            continue
        metadata = json.loads((out / "t.json").read_text(encoding="utf-8"))
        name = os.path.basename(metadata["source"])
        seen.add(name)
        assert tokens.tolist() == tokenizer.encode(texts[name])
        if "num_documents" in metadata:
            starts = load_document_starts(out / "t.npy")
            assert starts.tolist() == list(range(0, len(tokens), len(tokens) // 3000))
    assert seen & set(texts)
    # What the dead left goes with the next run.
    encode_file(
        tokenizer, tmp_path / "a.txt", out / "t.npy",
        num_workers=1, overwrite=True, document_starts=True,
    )  # fmt: skip
    assert sorted(os.listdir(out)) == ["t.json", "t.npy", "t.starts.npy"]


@pytest.mark.skipif(sys.platform == "win32", reason="there leftovers stay")
def test_killed_it_leaves_a_whole_file_or_none(tmp_path, out):
    kill_and_look(tmp_path, out, 10)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there leftovers stay")
def test_killed_a_hundred_times_it_leaves_a_whole_file_or_none(tmp_path, out):
    kill_and_look(tmp_path, out, 100)


# ------------------------------------------------------------------ progress


def test_progress_counts_the_bytes_of_the_files(tmp_path, out, monkeypatch, encoder):
    bars = []

    class Bar(_progress.tqdm):
        def __init__(self, **options):
            super().__init__(**{**options, "file": io.StringIO(), "disable": False})
            self.options, self.steps = options, []
            bars.append(self)

        def update(self, n):
            self.steps.append(n)
            return super().update(n)

    monkeypatch.setattr(_progress, "tqdm", Bar)
    for path, texts in write_inputs(tmp_path):
        if not texts:
            continue
        encode_file(
            small_tokenizer(), path, out / "a.npy", num_workers=1, overwrite=True,
            progress=True, chunk_size=40, field="text", column="body",
        )  # fmt: skip
        bar = bars.pop()
        assert bar.options["total"] == path.stat().st_size
        assert bar.options["disable"] is None  # on a terminal only
        assert sum(bar.steps) == path.stat().st_size
        assert min(bar.steps) >= 0
        if path.name in ("a.txt", "e.jsonl", "i.parquet"):
            assert len([step for step in bar.steps if step]) > 3
    encode_file(small_tokenizer(), tmp_path / "a.txt", out / "b.npy", num_workers=1)
    assert bars == []


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
    with pytest.raises(FileNotFoundError, match=r"nothing\.txt' does not exist"):
        encode_file(tokenizer, tmp_path / "nothing.txt", out / "a.npy")
    with pytest.raises(ValueError, match="is a directory"):
        encode_file(tokenizer, tmp_path, out / "a.npy")
    (tmp_path / "empty.txt").touch()
    with pytest.raises(ValueError, match=r"empty\.txt' is empty"):
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
def test_strict_names_the_invalid_byte_and_leaves_nothing(source, out, num_workers, encoder):
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


def test_an_absent_byte_is_named_with_the_file(tmp_path, out, encoder):
    tokenizer = Tokenizer({0: b"a", 1: b"\n"}, [])
    (tmp_path / "a.txt").write_text("aaa\naaaaa b", newline="")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress("aaa\u00e9a".encode()))
    (tmp_path / "c.jsonl").write_text('{"text": "aa"}\n{"text": "aa\u00e9a"}\n')
    (tmp_path / "d.txt").write_bytes(b"aa\n\xff\xffaaa\n")
    for name, missing, where, place in (
        ("a.txt", "0x20 of ' '", "", 9),
        ("b.txt.gz", "0xc3 of '\u00e9'", "", 3),
        ("c.jsonl", "0xc3 of '\u00e9'", ", the line at byte 15", 2),
        ("d.txt", "0xef", "", None),  # of U+FFFD, which is not in the file
    ):
        message = rf"{name}{where}: .* {missing} at byte {place}:"
        if encoder == "python":  # which counts characters, from the beginning of a part
            message = rf"{name}{where}.*: .* {missing}.* at character \d"
        elif place is None:
            message = rf"{name}, the text that begins at byte \d+: .* {missing}"
        for chunk_size in (1, 1000):
            with pytest.raises(ValueError, match=message):
                encode_file(
                    tokenizer, tmp_path / name, out / "a.npy",
                    field="text", num_workers=1, chunk_size=chunk_size,
                )  # fmt: skip
    assert os.listdir(out) == []


def test_a_text_that_gives_no_tokens_is_refused(tmp_path, out):
    (tmp_path / "a.txt").write_text("...")
    with pytest.raises(ValueError, match="no tokens"):
        encode_file(Tokenizer(BYTES, [], pattern=r"\w+"), tmp_path / "a.txt", out / "a.npy")
    assert os.listdir(out) == []


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_interruption_leaves_the_old_file_or_none(source, out, monkeypatch, error):
    tokenizer = small_tokenizer()
    write = token_files._TokenWriter.write

    def write_twice(*arguments):
        nonlocal calls
        calls += 1
        if calls == 3:
            raise error
        return write(*arguments)

    monkeypatch.setattr(token_files._TokenWriter, "write", write_twice)
    calls = 0
    with pytest.raises(error):
        encode_file(tokenizer, source, out / "a.npy", num_workers=1, chunk_size=100)
    assert os.listdir(out) == []

    calls = 1000
    encode_file(tokenizer, source, out / "a.npy", num_workers=1, document_starts=True)
    old = contents(out)
    assert sorted(old) == ["a.json", "a.npy", "a.starts.npy"]
    for document_starts in (False, True):
        calls = 0
        with pytest.raises(error):
            encode_file(
                tokenizer, source, out / "a.npy",
                num_workers=1, chunk_size=100, overwrite=True, document_starts=document_starts,
            )  # fmt: skip
        assert contents(out) == old


def contents(directory):
    return {name: (directory / name).read_bytes() for name in os.listdir(directory)}


@pytest.mark.parametrize("failing", ["a.npy", "a.starts.npy", "a.json"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_what_is_half_in_place_does_not_stay(source, out, monkeypatch, failing, error):
    # The ids, the document starts and the metadata are renamed one after the other.
    def fail(temporary, target):
        if os.path.basename(target) == failing:
            raise error("not now")
        replace(temporary, target)

    replace = os.replace
    request = {"num_workers": 1, "overwrite": True, "document_starts": True}
    for _ in range(2):  # where there was nothing, and over an old token file
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", fail)
            with pytest.raises(error, match="not now"):
                encode_file(small_tokenizer(), source, out / "a.npy", **request)
        assert os.listdir(out) == []
        encode_file(small_tokenizer(), source, out / "a.npy", **request)


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
