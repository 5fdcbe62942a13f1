"""Holding out whole documents at the end of a corpus, for every kind of file."""

from __future__ import annotations

import csv
import gzip
import io
import json

import pytest

from cs336_basics.data.hold_out import hold_out
from cs336_basics.data.preparation_record import Stages
from cs336_basics.splitting import Splitter
from cs336_basics.text import Corpus
from tests.errors import rejects
from tests.tokenizer.files.corpus_files import zstandard

END = "<|endoftext|>"
# Rows of different lengths, with line endings and multi-byte characters.
ROWS = ["né\n x" * (i * 37 % 80) + f" row {i}" for i in range(200)]


def divide(corpus, directory, fraction=0.1, report=lambda line: None):
    stages = Stages(directory, report)
    train, valid, _ = hold_out(corpus, fraction, directory / "data", stages)
    return train, valid


def texts_of(corpus):
    """Return the texts in a corpus: one for each row or plain text file."""
    texts = []
    for source in corpus.sources:
        for block in source.texts(Splitter(special_tokens=[END]).safe_cuts):
            text = block.text.decode() if isinstance(block.text, bytes) else block.text
            if block.starts_document:
                texts.append(text)
            else:
                texts[-1] += text
    return texts


def json_lines(rows, blank=""):
    return "".join(json.dumps({"id": 7, "text": row}) + "\n" + blank for row in rows).encode()


def write_rows(directory, name, rows):
    """Write rows to a file in the format that its extension names. Return options for Corpus."""
    path = directory / name
    if ".csv" in name:
        table = io.StringIO()
        csv.writer(table).writerows([("id", "text"), *enumerate(rows)])
        data = table.getvalue().encode()
        path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        return {"column": "text"}
    if ".jsonl" in name:
        data = json_lines(rows)
        compress = {"gz": gzip.compress, "zst": zstandard().compress}.get(name.split(".")[-1])
        path.write_bytes(compress(data) if compress else data)
        return {"field": "text"}
    pyarrow = pytest.importorskip("pyarrow")
    texts = pyarrow.array(rows, pyarrow.string())
    table = pyarrow.table({"id": list(range(len(rows))), "text": texts})
    if name.endswith(".parquet"):
        import pyarrow.parquet as parquet

        parquet.write_table(table, path, row_group_size=30)
    else:
        is_file = name.endswith(".feather")
        make = pyarrow.ipc.new_file if is_file else pyarrow.ipc.new_stream
        with pyarrow.OSFile(str(path), "wb") as sink, make(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=30)
    return {"column": "text"}


KINDS = [
    "a.csv",
    "a.csv.gz",
    "a.jsonl",
    "a.jsonl.gz",
    "a.jsonl.zst",
    "a.parquet",
    "a.arrow",
    "a.feather",
]


@pytest.mark.parametrize("name", KINDS)
def test_the_last_rows_of_a_file_are_held_out(tmp_path, name):
    corpus = Corpus(tmp_path / name, **write_rows(tmp_path, name, ROWS))
    train, valid = divide(corpus, tmp_path)
    left, right = texts_of(train), texts_of(valid)
    assert left + right == ROWS
    held_out = sum(map(len, right)) / sum(map(len, ROWS))
    assert 0.05 <= held_out <= 0.2


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("rows", [["one", "two"], ["x" * 5000, "two"], ["one", "y" * 5000]])
def test_the_second_of_two_rows_is_held_out(tmp_path, name, rows):
    corpus = Corpus(tmp_path / name, **write_rows(tmp_path, name, rows))
    train, valid = divide(corpus, tmp_path)
    assert (texts_of(train), texts_of(valid)) == (rows[:1], rows[1:])


@pytest.mark.parametrize("name", KINDS)
def test_a_single_row_cannot_be_split(tmp_path, name):
    corpus = Corpus(tmp_path / name, **write_rows(tmp_path, name, ["all in one row"]))
    with rejects(None, "data.valid_path", place=name):
        divide(corpus, tmp_path)


@pytest.mark.parametrize(
    ("name", "data"), [("a.jsonl", "\n"), ("a.jsonl", " \n\n \n"), ("a.txt", "a" * 5000)]
)
def test_blank_lines_and_a_single_word_cannot_be_split(tmp_path, name, data):
    (tmp_path / name).write_text(data)
    with rejects(None, "data.valid_path", place=name):
        divide(Corpus(tmp_path / name, field="text" if "json" in name else None), tmp_path)


def test_blank_lines_are_not_rows(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(json_lines(["one", "two"]) + b"\n \n" * 400)
    train, valid = divide(Corpus(tmp_path / "a.jsonl", field="text"), tmp_path)
    assert (texts_of(train), texts_of(valid)) == (["one"], ["two"])


@pytest.mark.parametrize("blank", ["", "\n", " \n\n"])
@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.3, 0.5, 0.9])
def test_json_lines_are_cut_at_a_row_for_every_fraction(tmp_path, fraction, blank):
    (tmp_path / "a.jsonl").write_bytes(json_lines(ROWS, blank))
    train, valid = divide(Corpus(tmp_path / "a.jsonl", field="text"), tmp_path, fraction)
    assert texts_of(train) + texts_of(valid) == ROWS
    assert texts_of(train)
    assert texts_of(valid)


def test_whole_files_are_held_out_if_their_sizes_allow_it(tmp_path):
    for number in range(20):
        (tmp_path / f"{number:02}.txt").write_text(f"text {number:02}\n" * 50)
    corpus = Corpus(str(tmp_path / "*.txt"))
    train, valid = divide(corpus, tmp_path)
    assert train.files == corpus.files[:18]
    assert valid.files == corpus.files[18:]
    assert not list(tmp_path.glob("data/*"))  # no file was split


def test_only_the_file_with_the_cut_is_rewritten(tmp_path):
    options = write_rows(tmp_path, "a.jsonl", ROWS)
    write_rows(tmp_path, "b.jsonl", ROWS)
    corpus = Corpus([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], **options)
    train, valid = divide(corpus, tmp_path)
    assert train.files == (corpus.files[0], str(tmp_path / "data" / "train.jsonl"))
    assert valid.files == (str(tmp_path / "data" / "valid.jsonl"),)
    assert texts_of(train) + texts_of(valid) == ROWS + ROWS


def test_a_file_with_one_row_stays_whole(tmp_path):
    options = write_rows(tmp_path, "a.jsonl", ["x"])
    write_rows(tmp_path, "b.jsonl", ["y" * 5000])
    train, valid = divide(Corpus([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], **options), tmp_path)
    assert (texts_of(train), texts_of(valid)) == (["x"], ["y" * 5000])


@pytest.mark.parametrize("name", ["b.csv", "b.csv.gz", "b.parquet", "b.arrow", "b.feather"])
def test_a_last_file_without_rows_cannot_be_cut(tmp_path, name):
    options = write_rows(tmp_path, "a.csv", ["x"] * 20)
    write_rows(tmp_path, name, [])
    with rejects(None, "data.valid_path", place=name):
        divide(Corpus([tmp_path / "a.csv", tmp_path / name], **options), tmp_path, 0.01)


def test_the_cut_may_be_in_a_table_without_rows(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    options = write_rows(tmp_path, "a.csv", ["x"])
    schema = pyarrow.schema([("text", pyarrow.string())], metadata={"notes": "long" * 1000})
    parquet.write_table(schema.empty_table(), tmp_path / "b.parquet")
    write_rows(tmp_path, "c.csv", ["y"])
    files = [tmp_path / name for name in ("a.csv", "b.parquet", "c.csv")]
    train, valid = divide(Corpus(files, **options), tmp_path)
    assert (texts_of(train), texts_of(valid)) == (["x"], ["y"])


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst"])
def test_text_is_cut_after_an_end_of_text_token(tmp_path, name):
    text = END.join(row.replace("\n", " ") for row in ROWS) + END
    compress = {"gz": gzip.compress, "zst": zstandard().compress}.get(name.split(".")[-1], bytes)
    (tmp_path / name).write_bytes(compress(text.encode()))
    train, valid = divide(Corpus(tmp_path / name), tmp_path)
    (left,), (right,) = texts_of(train), texts_of(valid)
    assert left + right == text
    assert left.endswith(END)
    assert 0.05 <= len(right) / len(text) <= 0.2


def test_text_without_separators_is_cut_between_words(tmp_path):
    text = "the quick brown fox jumps over the lazy dog " * 400
    (tmp_path / "a.txt").write_text(text)
    (left,), (right,) = map(texts_of, divide(Corpus(tmp_path / "a.txt"), tmp_path))
    assert left + right == text
    assert text.split()[: len(left.split())] == left.split()


def test_text_is_cut_between_words_if_it_has_no_separator_within_the_limit(tmp_path):
    text = "the quick brown fox " * 50_000
    (tmp_path / "a.txt").write_text(text)
    corpus = Corpus(tmp_path / "a.txt", max_piece_bytes=1000)
    (left,), (right,) = map(texts_of, divide(corpus, tmp_path))
    assert left + right == text
    assert 0.05 <= len(right) / len(text) <= 0.2


def test_compressed_text_is_cut_like_plain_text(tmp_path):
    text = "".join(f"{row}{END}" for row in ROWS).encode()
    (tmp_path / "a.txt").write_bytes(text)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text))
    plain = [texts_of(side) for side in divide(Corpus(tmp_path / "a.txt"), tmp_path)]
    packed = [texts_of(side) for side in divide(Corpus(tmp_path / "a.txt.gz"), tmp_path / "packed")]
    assert "".join(plain[0]).endswith(END)
    assert plain == packed


def test_a_damaged_file_leaves_no_output(tmp_path):
    options = write_rows(tmp_path, "a.jsonl.gz", ROWS)
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with rejects(None, place="a.jsonl.gz"):
        divide(Corpus(path, **options), tmp_path)
    assert not list(tmp_path.glob("data/*"))


def test_the_parts_have_the_format_of_the_corpus(tmp_path):
    (tmp_path / "rows.txt").write_bytes(json_lines(ROWS))
    corpus = Corpus(tmp_path / "rows.txt", field="text", format="jsonl")
    train, valid = divide(corpus, tmp_path)
    assert [source.format for source in (*train.sources, *valid.sources)] == ["jsonl", "jsonl"]
    assert texts_of(train) + texts_of(valid) == ROWS
    csv_bytes = b"text\nnot \xff UTF-8\nrow 2\n"
    (tmp_path / "rows.csv").write_bytes(csv_bytes)
    parts = divide(Corpus(tmp_path / "rows.csv", column="text"), tmp_path / "csv")
    cuts = Splitter().safe_cuts
    found = [block.text for part in parts for block in part.sources[0].texts(cuts)]
    assert found == [b"not \xff UTF-8", "row 2"]
