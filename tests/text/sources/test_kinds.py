"""Detecting a file's kind from its name and content."""

import csv
import io
import json
import random

import numpy as np
import pytest

from cs336_basics._support.errors import Argument
from cs336_basics.text import Corpus
from cs336_basics.text.sources.kinds import (
    HEAD,
    check_is_text,
    format_of_json,
    has_known_ending,
    named_format,
)
from tests.errors import rejects

ROWS = [{"text": 'A story,\nwith "quotes".', "id": i} for i in range(40)]
JSON_LINES = "".join(json.dumps(row) + "\n" for row in ROWS)


def as_csv(rows, **how):
    file = io.StringIO()
    writer = csv.writer(file, **how)
    writer.writerow(rows[0])
    writer.writerows(row.values() for row in rows)
    return file.getvalue()


TEXTS = {
    "prose": "Once upon a time, there was a cat, a dog, and a bird.\nThey met, ate, and left.\n"
    * 9,
    "log": "2024-01-01,INFO,started\n2024-01-02,WARN,disk,full\n2024-01-03,INFO,stopped\n" * 9,
    "log with equal commas": "started,ok\nread 5 rows, took 3 s,ok\nwrote,ok\n",
    "word list": "big,large\nsmall,little\nfast,quick\n",
    "markdown": "| a | b |\n|---|---|\n| 1, 2 | 3, 4 |\n| 5, 6 | 7, 8 |\n",
    "python": "import os, sys\n\nx = {'a': 1, 'b': 2}\nprint(x, file=sys.stderr)\n",
    "braces": "{ local x = 1; }\n{ local y = 2; }\n",
    "template": '{"a": 1} is JSON.\n{"b": 2} is, too.\n',
    "one object, then prose": '{"title": "x"}\nThis is front matter.\n',
    "list of numbers": "1,2,3\n4,5,6\n7,8,9\n",
    "poem": "Roses,red\nViolets,blue\n",
    "names alone": "id,text\n",
    "Markdown table without outer bars": "name|count\n--|--\na|1\nb|2\n",
    "word list with tabs": "the\t12\nof\t9\n",
    "assembly": "mov r0, r1\nadd r0, r1, r2\nldr r1, [r0, #4]\n" * 9,
    "NULs": "one\0 two\0" * 99,
    "escapes": "\x1b[31mred\x1b[0m\t\r\n" * 9,
    "empty": "",
}


@pytest.mark.parametrize("name", TEXTS)
def test_ordinary_text_is_text(name):
    check_is_text(TEXTS[name].encode()[:HEAD], "x", may_be_binary=False)
    assert format_of_json(TEXTS[name].encode().lstrip(b"{")[:HEAD], "x") == "text"


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "koi8_r", "gb18030", "shift_jis"])
def test_text_in_another_encoding_is_not_binary(encoding):
    words = {
        "koi8_r": "\u043a\u043e\u0442 ",
        "gb18030": "\u597d\u732b",
        "shift_jis": "\u732b\u3068",
    }
    data = words.get(encoding, "caf\xe9 na\xefve ").encode(encoding) * 99
    check_is_text(data, "x", may_be_binary=False)


@pytest.mark.parametrize(
    ("data", "format"),
    [
        (JSON_LINES, "jsonl"),
        ("\ufeff\n" + JSON_LINES.replace("\n", "\r\n"), "jsonl"),
        (JSON_LINES.rstrip(), "jsonl"),
        ('{"text": "one row"}', "jsonl"),
        ('{"text": "' + "a" * 2 * HEAD, "jsonl"),
        (as_csv(ROWS), "csv"),
        (
            as_csv(ROWS, quoting=csv.QUOTE_ALL, lineterminator="\n").replace(
                '"text","id"', "text,id"
            ),
            "csv",
        ),
        (as_csv(ROWS * 200), "csv"),
        ("score,word\n1,a\n-2.5,b\n", "csv"),
        ("id;text;n\n1;hallo welt;2\n2;guten tag;3\n", "csv"),
        ("score\tword\n1\ta\n-2.5\tb\n", "csv"),
    ],
)
def test_json_lines_and_csv_are_rejected_as_text(data, format):
    head = data.encode()[:HEAD]
    with rejects(None, f"format='{format}'", "format='text'"):
        check_is_text(head, "x", may_be_binary=True)
    if format == "jsonl":
        assert format_of_json(head, "x.json") == "jsonl"


@pytest.mark.parametrize("data", ['[{"text": "a"}]', '{\n  "text": "a"\n}\n', " [1, 2]", "{}"])
def test_a_single_json_value_is_not_json_lines(data):
    with rejects(None, "x.json") as caught:
        format_of_json(data.encode(), "x.json")
    assert Argument("format", "text") in caught.value.remedy


def test_kinds_by_name():
    assert named_format("a/b.txt") == named_format("b.txt.gz") == named_format("b") == "text"
    assert named_format("b.JSONL.zst") == named_format("b.ndjson") == "jsonl"
    assert named_format("b.json.gz") == "json"
    assert named_format("b.csv.gz") == named_format("b.tsv") == "csv"
    assert (named_format("b.parquet"), named_format("b.feather")) == ("parquet", "arrow")
    assert has_known_ending("a.txt.gz")
    assert has_known_ending("a.json")
    assert not any(map(has_known_ending, ["a.png", "a", "a.npy", "a.gz", "txt"]))


@pytest.mark.parametrize("dtype", ["<u2", "<u4"])
@pytest.mark.parametrize("largest", [300, 366, 2_000, 10_000, 50_000])
def test_token_ids_are_binary(dtype, largest):
    ids = np.random.default_rng(largest).zipf(1.2, 4_000) % largest
    with rejects(None, "a.txt"):
        check_is_text(ids.astype(dtype).tobytes(), "a.txt", may_be_binary=False)


@pytest.mark.parametrize("ending", ["txt", "bin", "md", "py", ""])
def test_small_ids_are_rejected_whatever_the_ending(tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    path.write_bytes(np.arange(97, 122).repeat(20).astype("<u2").tobytes())
    with rejects(None, "token ids"):
        Corpus(path)


def test_random_bytes_are_binary():
    data = random.Random(1).randbytes(1000)
    with rejects(None, "x.png") as caught:
        check_is_text(data, "x.png", may_be_binary=False)
    assert Argument("format", "text") in caught.value.remedy
    check_is_text(data, "x.png", may_be_binary=True)
