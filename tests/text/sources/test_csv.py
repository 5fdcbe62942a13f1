"""A column of a CSV file is read, and malformed CSV is rejected."""

import csv
import gzip
import io

import pytest

from cs336_basics.text import Corpus
from cs336_basics.text.sources.csv import column_texts, read_header
from tests.errors import rejects
from tests.text.counted import DOCUMENTS, count, expected

LIMIT = 1 << 20


def texts(data, column="text", name="x.csv", limit=LIMIT):
    return [text for _, text in column_texts(io.BytesIO(data), name, column, limit)]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv"])
def test_csv_files_are_counted(tmp_path, name):
    file = io.StringIO()
    writer = csv.writer(file, delimiter="\t" if "tsv" in name else ",")
    writer.writerows([("id", "text"), *enumerate(DOCUMENTS)])
    data = file.getvalue().encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert Corpus(tmp_path / name, column="text").sources[0].format == "csv"
    for chunk_size in (1, 1 << 20):
        assert count([tmp_path / name], column="text", chunk_size=chunk_size) == expected(DOCUMENTS)


def test_rows_are_parsed_like_the_csv_module():
    data = b'\xef\xbb\xbfid,text\r\n1,"a, ""b""\nc"\r\n\r\n2,d\0e\n3,'
    assert texts(data) == ['a, "b"\nc', "d\0e", ""]
    assert read_header(io.BytesIO(data), "x.csv", LIMIT) == ["id", "text"]
    assert read_header(io.BytesIO(b""), "x.csv", LIMIT) == []
    locations = [where for where, _ in column_texts(io.BytesIO(data), "x.csv", "text", LIMIT)]
    assert locations == [2, 5, 6]


def test_invalid_utf8_is_returned_as_bytes():
    assert texts(b"text\ncaf\xe9\nok\n") == [b"caf\xe9", "ok"]


def test_fields_may_exceed_the_limit_of_the_csv_module():
    assert texts(b"text\n" + b"a" * 300_000) == ["a" * 300_000]


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"id,text\n1,a\n2\n", ["row at line 3", 2, 1]),
        (b"id,text\n1,a,b\n", ["row at line 2", 2, 3]),
        (b'id,text\n1,"a\nb\n', ["row at line 2"]),
        (b'id,text\n1,"a"b\n', ["row at line 2"]),
        (b"id,text\n1,a\rb\n", ["row at line 2", "carriage return"]),
        (b"id,text\n1," + b"a" * 3000, ["line at byte 8", "2,000"]),
        (b'id,text\n1,"' + b"a\n" * 3000, ["row at line 2", "2,000"]),
    ],
)
def test_errors_for_bad_csv_include_the_line(data, shown):
    with rejects(None, "x.csv", *shown):
        texts(data, limit=2000)
