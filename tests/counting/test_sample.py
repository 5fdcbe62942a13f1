"""Samples: they have the right size, and depend on the files and the seed alone."""

from __future__ import annotations

import gzip
import json
import pickle
import sys
from collections import Counter

import pytest

from cs336_basics.counting import Sample, count_sample, count_words
from cs336_basics.counting import sample as sample_module
from cs336_basics.splitting import Splitter
from cs336_basics.text import Corpus
from tests.errors import rejects

END = "<|endoftext|>"


@pytest.fixture(autouse=True)
def small_units(monkeypatch):
    monkeypatch.setattr(sample_module, "SMALLEST_UNIT", 256)


def documents(word, number, length=10):
    """Return texts of `length` times a word, each with a number."""
    return [f"{word} " * length + f"{word}{i}" for i in range(number)]


@pytest.fixture
def corpus(tmp_path):
    for word in ("aa", "bb", "cc"):
        size = 1500 if word == "aa" else 500
        (tmp_path / f"{word}.txt").write_text(END.join(documents(word, size)) + END)
    return Corpus([tmp_path / f"{word}.txt" for word in ("aa", "bb", "cc")])


def test_every_byte_has_the_same_chance(corpus):
    sizes = [source.num_bytes for source in corpus.sources]
    total = Counter()
    for seed in range(40):
        drawn = Sample(sum(sizes) // 10, seed).draw(corpus.sources)
        assert sum(found.num_bytes for found in drawn) == pytest.approx(sum(sizes) / 10, abs=512)
        for index, found in enumerate(drawn):
            total[index] += found.num_bytes
    # Of 40 * 32 units, a third is from each of the small files, with a deviation of 13.
    for index, size in enumerate(sizes):
        assert total[index] / 40 == pytest.approx(size / 10, rel=0.15)


def test_the_counts_depend_on_neither_workers_nor_pieces(corpus, monkeypatch):
    sample, splitter = Sample(5000, 3), Splitter("gpt2", [END])
    expected = count_sample(corpus, sample, splitter)
    assert expected != count_sample(corpus, Sample(5000, 4), splitter)
    for options in (
        {"num_workers": 1},
        {"num_workers": 3, "execution": "threads"},
        {"num_workers": 2, "execution": "processes"},
        {"execution": "serial", "splitting": "regex"},
    ):
        assert count_sample(corpus, sample, splitter, **options) == expected
    module = sys.modules["cs336_basics.counting.count_sample"]  # the function hides it
    monkeypatch.setattr(module, "DEFAULT_PIECE_SIZE", 600)
    assert count_sample(corpus, sample, splitter, num_workers=2) == expected


def test_documents_are_whole(corpus):
    """Each document has ten equal words and a last one with its number."""
    counts = count_sample(corpus, Sample(20_000), Splitter(r"\S+|\s+", [END]))
    for word in (b"aa", b"bb", b"cc"):
        last = [found for found in counts if found.startswith(word) and found != word]
        assert counts[word] == 10 * len(last) > 0


def test_both_patterns_of_superwords_read_the_same_text(corpus):
    text = Counter()
    for pattern in ("gpt2", r"[^\n]+|\n+"):
        counts = count_sample(corpus, Sample(3000, 1), Splitter(pattern, [END]))
        text[sum(len(word) * count for word, count in counts.items())] += 1
    assert list(text.values()) == [2]


def test_small_files_are_drawn_as_a_whole(tmp_path):
    for i in range(100):
        (tmp_path / f"{i}.txt").write_text(f"x{i} y{i}\n")
    counts = count_sample(tmp_path, Sample(300), Splitter(r"\S+|\s+"))
    found = {word[1:] for word in counts if word.startswith(b"x")}
    assert found == {word[1:] for word in counts if word.startswith(b"y")}
    assert 30 < len(found) < 50


def test_a_document_larger_than_a_unit_is_cut_between_words(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(" abcdefg" * 2000 + END)
    counts = count_sample(path, Sample(4000), Splitter("gpt2", [END]))
    assert set(counts) == {b" abcdefg"}
    assert 300 < counts[b" abcdefg"] < 700


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.csv", "a.txt.gz"])
def test_rows_and_compressed_files_are_sampled(tmp_path, name):
    texts = [f"row{i} and some text" for i in range(4000)]
    if "csv" in name:
        data = "text\n" + "".join(f"{text}\n" for text in texts)
    elif "jsonl" in name:
        data = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    else:
        data = END.join(texts)
    stored = gzip.compress(data.encode()) if name.endswith("gz") else data.encode()
    path = tmp_path / name
    path.write_bytes(stored)
    option = {} if "txt" in name else {"column" if "csv" in name else "field": "text"}
    corpus = Corpus(path, **option)
    splitter = Splitter(r"\S+|\s+", [END])
    sample = Sample(len(stored) // 4, 5)
    counts = count_sample(corpus, sample, splitter)
    assert counts == count_sample(corpus, sample, splitter, execution="processes", num_workers=2)
    rows = [word for word in counts if word.startswith(b"row")]
    # Blocks of compressed text end between words, not between documents.
    assert len(rows) == pytest.approx(counts[b"some"], abs=100 if name == "a.txt.gz" else 0)
    assert len(rows) == pytest.approx(1000, abs=350)


def test_a_corpus_that_is_smaller_than_the_sample_is_counted_as_a_whole(corpus):
    splitter = Splitter("gpt2", [END])
    expected = count_words(corpus, splitter)
    assert count_sample(corpus, Sample(corpus.num_bytes), splitter) == expected
    drawn = Sample(1 << 40).draw(corpus.sources)
    assert [found.num_bytes for found in drawn] == [s.num_bytes for s in corpus.sources]


def test_pieces_are_picklable(corpus):
    (first, *_) = Sample(4000).draw(corpus.sources)[0].pieces([END], 1000)
    copy = pickle.loads(pickle.dumps(first))
    cuts = Splitter("gpt2", [END]).safe_cuts
    assert [*copy.texts(cuts)] == [*first.texts(cuts)]


def test_invalid_samples_are_rejected(corpus):
    with rejects("sample", 0):
        Sample(0)
    with rejects("sample", "1GB", kind=TypeError):
        Sample("1GB")
    with rejects("sample_seed", -1):
        Sample(1, -1)
    with rejects("sample", 10, kind=TypeError):
        count_sample(corpus, 10)
