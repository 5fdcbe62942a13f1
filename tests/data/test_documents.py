"""Reading and sampling the documents in a corpus."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.data import documents
from cs336_basics.data.documents import read_documents, sample_documents
from cs336_basics.splitting import Splitter
from cs336_basics.text import Corpus
from tests.errors import rejects

TEXTS = [f"Document {n}.\n\nIt has {'many ' * (n % 7)}words.\r\nnaïve 🎉" for n in range(25)]


def plain(directory, texts, name="text.txt", between=f"\n{END_OF_TEXT}\n"):
    path = directory / name
    data = between.join(texts).encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def rows(directory, texts):
    path = directory / "text.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
    return Corpus(path, field="text")


def table(directory, texts):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = directory / "text.parquet"
    parquet.write_table(pyarrow.table({"text": texts}), path, row_group_size=4)
    return Corpus(path, column="text")


KINDS = {
    "text": lambda directory, texts: Corpus(plain(directory, texts)),
    "gz": lambda directory, texts: Corpus(plain(directory, texts, "text.txt.gz")),
    "two files": lambda directory, texts: Corpus(
        [plain(directory, texts[:3], "1.txt"), plain(directory, texts[3:], "2.txt")]
    ),
    "rows": rows,
    "table": table,
}


def as_texts(found):
    return [text if isinstance(text, str) else text.decode() for text in found]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_corpus_has_the_same_documents(tmp_path, kind):
    corpus = KINDS[kind](tmp_path, TEXTS)
    assert as_texts(read_documents(corpus)) == TEXTS
    assert sample_documents(corpus, 10**15).spaced == TEXTS


def test_samples_are_at_equal_distances(tmp_path):
    sample = sample_documents(Corpus(plain(tmp_path, TEXTS)), 10, beginning_bytes=1)
    assert sample.spaced == [TEXTS[index * 25 // 10] for index in range(10)]
    assert sample.beginning == TEXTS[:1]
    assert sample.num_documents == 25


def test_beginning_contains_the_first_documents(tmp_path):
    corpus = Corpus(plain(tmp_path, TEXTS))
    size = sum(len(text.encode()) for text in TEXTS[:3])
    assert sample_documents(corpus, 1, beginning_bytes=size).beginning == TEXTS[:3]
    assert sample_documents(corpus, 1, beginning_bytes=size + 1).beginning == TEXTS[:4]
    assert sample_documents(corpus, 1).beginning == []


def test_the_separator_can_be_changed(tmp_path):
    corpus = Corpus(plain(tmp_path, TEXTS, between="\n###\n"))
    assert as_texts(read_documents(corpus, "###")) == TEXTS
    assert len(list(read_documents(corpus))) == 1


@given(st.lists(st.text("a \n<|", max_size=30), max_size=8), st.integers(1, 20))
def test_blocks_do_not_change_documents(tmp_path_factory, texts, block_size):
    path = plain(tmp_path_factory.mktemp("text"), [*texts, "end"], between=END_OF_TEXT)
    expected = [t for t in (p.strip() for p in path.read_bytes().split(END_OF_TEXT.encode())) if t]
    (source,) = Corpus(path).sources
    blocks = source.texts(Splitter(special_tokens=[END_OF_TEXT]).safe_cuts, block_size)
    assert list(documents._in_blocks(blocks, END_OF_TEXT.encode())) == expected


def test_a_huge_document_is_cut_and_needs_little_memory(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"some words " * 2_000_000)
    tracemalloc.start()
    try:
        sizes = [len(text) for text in read_documents(Corpus(path))]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(sizes) > 10
    assert max(sizes) < 3 << 20
    assert peak < 16 << 20


def test_invalid_utf8_is_replaced_with_a_warning_or_rejected(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"a\xff" + END_OF_TEXT.encode() + b"b\x80")
    with pytest.warns(UserWarning, match=r"UTF-8.*\b2\b"):
        assert sample_documents(Corpus(path), 2).spaced == ["a\ufffd", "b\ufffd"]
    with rejects(None, "0xff", 1, "errors=", place="text.txt"):
        sample_documents(Corpus(path, errors="strict"), 2)
    (tmp_path / "first.txt").write_text("c")
    files = [str(tmp_path / "first.txt"), str(path)]
    with pytest.warns(UserWarning, match=r"first\.txt, .*text\.txt: .*UTF-8.*\b2\b"):
        sample_documents(Corpus(files), 3)
    with rejects(None, "text.txt", place="first.txt"):
        sample_documents(Corpus(files, errors="strict"), 3)


def test_a_corpus_without_documents_is_rejected(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with rejects(None, place="text.txt"):
            sample_documents(Corpus(plain(tmp_path, [" ", "\n"])), 10)
