"""A column of a CSV file is read, and malformed CSV is rejected."""

import csv
import gzip
import io

import pytest

from cs336_basics.splitting import Splitter
from cs336_basics.text import Corpus
from cs336_basics.text.sources import MissingFieldError
from cs336_basics.text.sources.csv import column_texts, find_header
from tests.errors import rejects
from tests.text.counted import DOCUMENTS, count, expected

LIMIT = 1 << 20


def texts(data, column="text", name="x.csv", limit=LIMIT):
    return [text for _, text in column_texts(io.BytesIO(data), name, column, ",", limit)]


def header(data, column="text", name="x.csv"):
    return find_header(io.BytesIO(data), name, column, LIMIT)


@pytest.mark.parametrize(
    ("name", "delimiter"),
    [
        ("a.csv", ","), ("a.csv.gz", ","), ("a.tsv", "\t"),
        ("a.csv", ";"), ("a.csv.gz", ";"), ("a.csv", "\t"), ("a.csv", "|"),
    ],
)  # fmt: skip
def test_csv_files_are_counted(tmp_path, name, delimiter):
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter)
    writer.writerows([("id", "text"), *enumerate(DOCUMENTS)])
    data = file.getvalue().encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert Corpus(tmp_path / name, column="text").sources[0].format == "csv"
    for chunk_size in (1, 1 << 20):
        assert count([tmp_path / name], column="text", chunk_size=chunk_size) == expected(DOCUMENTS)


def test_rows_are_parsed_like_the_csv_module():
    data = b'\xef\xbb\xbfid,text\r\n1,"a, ""b""\nc"\r\n\r\n2,d\0e\n3,'
    assert texts(data) == ['a, "b"\nc', "d\0e", ""]
    assert header(data) == (",", ["id", "text"])
    assert header(b"") == (",", [])
    rows = column_texts(io.BytesIO(data), "x.csv", "text", ",", LIMIT)
    assert [where for where, _ in rows] == [2, 5, 6]


@pytest.mark.parametrize(
    ("data", "column", "expected"),
    [
        (b"id;text\n1;a, b\n2;c, d\n", "text", (";", ["id", "text"])),
        (b"id,a;b,text\n1,c;d,e\n", "text", (",", ["id", "a;b", "text"])),
        (b'"id";"my text"\n1;a\n', "my text", (";", ["id", "my text"])),
        (b"\xef\xbb\xbftext|n\r\na|1\r\n", "text", ("|", ["text", "n"])),
        (b"text\na;b\nc;d\n", "text", (",", ["text"])),  # only the first row decides
        (b"id;text;n\n1;a;2\n", None, (";", ["id", "text", "n"])),
    ],
)
def test_the_first_row_shows_the_delimiter(data, column, expected):
    assert header(data, column) == expected


def test_the_names_of_columns_between_semicolons_are_suggested(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"id;text;n\n1;hallo welt;2\n")
    for column in (None, "body"):
        with rejects("column", "id, text, n", "column='text'", kind=MissingFieldError):
            Corpus(path, column=column)


def test_a_tsv_file_is_divided_only_at_tabs(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"id,text\n1,a\n")
    with rejects("column", kind=MissingFieldError):
        Corpus(path, column="text")


def test_the_delimiter_is_part_of_the_settings(tmp_path):
    sources = []
    for delimiter in ",;":
        path = tmp_path / "a.csv"
        path.write_text(f"id{delimiter}text\n1{delimiter}a\n")
        sources += Corpus(path, column="text").sources
    assert sources[0].settings() != sources[1].settings()
    assert [text.text for text in sources[1].absolute().texts(Splitter().safe_cuts)] == ["a"]


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


def test_utf_16_is_rejected_as_in_other_formats(tmp_path):
    (tmp_path / "a.csv").write_text("id;text\n1;a\n", encoding="utf-16")
    with rejects(None, "UTF-16"):
        Corpus(tmp_path / "a.csv", column="text")


def test_column_names_with_spaces_around_them_are_shown_in_quotes(tmp_path):
    (tmp_path / "a.csv").write_text("id, text\n1, a\n")
    with rejects("column", "id, ' text'"):
        Corpus(tmp_path / "a.csv", column="text")
