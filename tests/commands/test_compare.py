"""`python -m cs336_basics compare`: its table, JSON output and options."""

import json
import os
import re

import pytest

from tests.commands.small_run import command
from tests.data.test_documents import TEXTS, plain, rows, table
from tests.tokenizer.examples import END, small_tokenizer

compare = command("compare")


def test_the_table_has_every_tokenizer_on_every_corpus(work, capsys):
    plain(work, TEXTS[:3], "few.txt.gz")
    words = ["--tokenizer", "a", "b", "--input", "text.txt", "few.txt.gz", "--gigabytes", "2.5"]
    assert compare(words) == 0
    lines = capsys.readouterr().out.splitlines()
    header = "corpus tokenizer documents bytes tokens bytes/token MB/s hours for 2.5 GB"
    assert lines[0].split() == header.split()
    cells = [line.split() for line in lines[1:5]]
    assert [row[:5] for row in cells] == [
        ["text.txt", "a", "10", "of", "25"],
        ["text.txt", "b", "10", "of", "25"],
        ["few.txt.gz", "a", "3", "of", "3"],
        ["few.txt.gz", "b", "3", "of", "3"],
    ]
    for row in cells:
        num_bytes, num_tokens, ratio = (float(cell.replace(",", "")) for cell in row[5:8])
        assert ratio == pytest.approx(num_bytes / num_tokens, abs=0.0005)
    assert len({len(line) for line in lines[:5]}) == 1
    assert lines[5] == (
        "speed: CPU time of one thread with cold caches on the first megabyte of each corpus"
    )
    assert lines[-2].startswith("a (cs336_basics ")
    assert f"{len(small_tokenizer()):,} tokens): '猫は鼠を食べた' " in lines[-2]
    assert " b'" in lines[-2]  # a token that ends within a character


def test_the_json_has_the_results_and_the_longest_tokens(work, capsys):
    words = ["--tokenizer", "a", "--input", "text.txt", "--documents", "25", "--format", "json"]
    assert compare(words) == 0
    found = json.loads(capsys.readouterr().out)
    (result,) = found["results"]
    assert result["num_bytes"] == sum(len(text.encode()) for text in TEXTS)
    assert result["num_tokens"] == sum(len(small_tokenizer().encode(text)) for text in TEXTS)
    assert result["changed_documents"] == 0
    assert found["gigabytes"] == 825
    (tokenizer,) = found["tokenizers"]
    assert len(tokenizer["longest_tokens"]) == 10
    assert END not in tokenizer["longest_tokens"]


def test_inputs_of_several_formats_have_separate_options(work, capsys):
    rows(work, TEXTS)
    table(work, TEXTS)
    words = ["--tokenizer", "a", "--input", "text.txt", "text.jsonl", "text.parquet"]
    assert compare([*words, "--field", "text", "--column", "text", "--format", "json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert [result["corpus"] for result in results] == ["text.txt", "text.jsonl", "text.parquet"]
    assert len({result["num_tokens"] for result in results}) == 1
    assert compare([*words, "--field", "text"]) == 2
    assert "pass --column text" in capsys.readouterr().err
    for option in ("field", "column"):
        words = ["--tokenizer", "a", "--input", "text.txt", f"--{option}", "text"]
        assert compare(words) == 2
        assert re.search(f"{option}.* 'text'", capsys.readouterr().err)


def test_a_tokenizer_that_changes_documents_is_reported(work, capsys):
    """Another library's tokenizer may change text; here, by a normalizer."""
    tokenizers = pytest.importorskip("tokenizers")
    other = tokenizers.Tokenizer.from_file("a/tokenizer.json")
    other.normalizer = tokenizers.normalizers.Replace("e", "i")
    os.mkdir("other")
    other.save("other/tokenizer.json")
    assert compare(["--tokenizer", "other/tokenizer.json", "--input", "text.txt"]) == 0
    assert " changes 10 of the 10 documents in text.txt\n" in capsys.readouterr().out
