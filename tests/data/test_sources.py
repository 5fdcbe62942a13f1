"""`python -m cs336_basics.train` with every supported file format."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from cs336_basics.data.data_config import DataConfig
from cs336_basics.data.datasets import write_sample
from cs336_basics.data.sources import absolute_path, check_length, find_sources
from cs336_basics.text import Corpus
from cs336_basics.tokenizer import Tokenizer, encode_file
from tests.commands.small_run import assert_equal_runs, command, error_of
from tests.data.test_hold_out import write_rows
from tests.errors import rejects
from tests.tokenizer.examples import END, byte_tokenizer

main = command("train")

FAST = ["--max-steps", "2", "--eval-every", "2", "--eval-windows", "8", "--sample-tokens", "0"]


@pytest.fixture
def rows(tiny):
    """Write a sample text, and return its documents."""
    write_sample("text.txt", 60_000, seed=5)
    text = Path("text.txt").read_text(encoding="utf-8")
    return [row for row in text.split(END) if row]


def train(tiny, *words, run="run"):
    return main(["--config", tiny, *FAST, "--run-dir", run, *words])


def ids_of(rows, tokenizer):
    end = tokenizer.special_token_id(END)
    return [token for row in rows for token in (*tokenizer.encode(row), end)]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.parquet", "a.arrow"])
def test_rows_are_documents_and_the_last_rows_are_held_out(tiny, rows, name):
    ((option, value),) = write_rows(Path("."), name, rows).items()
    assert train(tiny, "--data.train-path", name, f"--data.{option}", value) == 0
    tokenizer = Tokenizer.from_directory("run/tokenizer")
    tokens = [np.load(f"run/data/{split}.npy") for split in ("train", "valid")]
    assert np.concatenate(tokens).tolist() == ids_of(rows, tokenizer)
    assert tokens[0][-1] == tokenizer.special_token_id(END)
    assert 0.02 < len(tokens[1]) / sum(map(len, tokens)) < 0.12
    assert main(["--resume", "run", "--max-steps", "3"]) == 0


def test_empty_rows_at_the_end_cannot_be_held_out(tiny, rows, capsys):
    write_rows(Path("."), "a.jsonl", [*rows, *[""] * 5000])
    assert train(tiny, "--data.train-path", "a.jsonl", "--data.field", "text") == 2
    error = capsys.readouterr().err
    assert re.search(r"a\.jsonl: the valid split .* has no tokens; set --data\.valid-path", error)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--data.train-path", "web/*.jsonl.gz"], [[0, 1, 2]]),
        (
            ["--data.train-path", "web/0.jsonl.gz", "web/1.jsonl.gz", "web/2.jsonl.gz"],
            [[0], [1], [2]],
        ),
        (
            ["--data.train-path", "web/0.jsonl.gz", "--data.train-path", "web/[12].jsonl.gz"],
            [[0], [1, 2]],
        ),
    ],
)
def test_the_end_of_each_path_is_held_out(tiny, rows, words, parts, capsys):
    Path("web").mkdir()
    for number in range(3):
        write_rows(Path("web"), f"{number}.jsonl.gz", rows[number::3])
    assert train(tiny, *words, "--data.field", "text") == 0
    tokenizer = Tokenizer.from_directory("run/tokenizer")
    kept, held_out = (np.load(f"run/data/{split}.npy").tolist() for split in ("train", "valid"))
    for files in parts:
        ids = ids_of([row for number in files for row in rows[number::3]], tokenizer)
        different = [a != b for a, b in zip(ids, kept, strict=False)]
        longest = different.index(True) if True in different else len(different)
        # The training ids of the next path may start like the held-out ids of this one.
        sizes = [n for n in range(longest + 1) if ids[n:] == held_out[: len(ids) - n]]
        size = sizes[-1]
        assert 0.02 < 1 - size / len(ids) < 0.12
        kept, held_out = kept[size:], held_out[len(ids) - size :]
    assert kept == held_out == []
    assert re.search(r"^validation: the end of .*web/.*\.jsonl\.gz", capsys.readouterr().out, re.M)
    # Because the paths are absolute, a run can be resumed from any working directory.
    paths = yaml.safe_load(Path("run/config.yaml").read_text())["data"]["train_path"]
    assert all(Path(path).is_absolute() for path in ([paths] if type(paths) is str else paths))


@pytest.fixture
def token_files(tiny, rows):
    """Write two token files, the first with document starts. Return the tokenizer option."""
    tokenizer = byte_tokenizer(END)
    tokenizer.save("tok")
    for name, part in (("a", rows[:40]), ("b", rows[40:])):
        Path(f"{name}.jsonl").write_text("".join(json.dumps({"t": row}) + "\n" for row in part))
        corpus = Corpus(f"{name}.jsonl", field="t")
        options = {"document_starts": name == "a", "end_of_document": END, "num_workers": 1}
        encode_file(tokenizer, corpus, f"{name}.npy", **options)
    return ["--data.tokenizer", "tok"]


@pytest.mark.parametrize("paths", [["a.npy"], ["b.npy"], ["a.npy", "b.npy"], ["*.npy"]])
def test_the_end_of_the_token_files_is_held_out(tiny, token_files, paths, capsys):
    assert train(tiny, "--data.train-path", *paths, *token_files) == 0
    out = capsys.readouterr().out
    names = ["a.npy", "b.npy"] if paths == ["*.npy"] else paths
    tokens = np.concatenate([np.load(name) for name in names])
    counts = [
        int(re.search(rf"([\d,]+) {split} tokens", out)[1].replace(",", ""))
        for split in ("training", "validation")
    ]
    assert sum(counts) == len(tokens)
    if len(paths) == 1:
        assert tokens[counts[0] - 1] == 256
    assert out.count("the end of ") == len(paths)
    assert 0.025 <= counts[1] / sum(counts) <= 0.1
    assert not list(Path("run/data").glob("*.npy"))  # the files are used in place
    assert main(["--resume", "run", "--max-steps", "3"]) == 0


@pytest.mark.parametrize("path", ["*.jsonl", "."])
def test_a_resumed_run_reads_the_files_that_it_has_recorded(tiny, rows, path, capsys):
    for name in ("tiny.yaml", "text.txt"):
        Path(name).rename(f".{name}")
    write_rows(Path("."), "b.jsonl", rows)
    words = ["--data.train-path", path, "--data.field", "text"]
    assert train(".tiny.yaml", *words) == 0
    write_rows(Path("."), "a.jsonl", rows[:100])
    assert main(["--resume", "run", "--max-steps", "3"]) == 0
    with open("b.jsonl", "a") as file:
        file.write('{"text": "more"}\n')
    capsys.readouterr()
    assert main(["--resume", "run", "--max-steps", "4"]) == 2
    assert "start a new run" in capsys.readouterr().err
    Path("b.jsonl").unlink()
    assert main(["--resume", "run", "--max-steps", "4"]) == 2
    assert "b.jsonl" in capsys.readouterr().err


def test_a_run_in_the_directory_that_it_reads_is_not_read(tiny, rows, capsys):
    Path(".yaml").write_text(Path(tiny).read_text())
    Path(tiny).unlink()
    for number, path in enumerate((".", "**/*.txt", ".")):
        assert train(".yaml", "--data.train-path", path, run=f"runs/{number}") == 0
        out = capsys.readouterr().out
        assert ("left out: " in out) == (number > 0)
        assert ("runs/0 (a run)" in out) == (number > 0)
        assert main(["--resume", f"runs/{number}", "--max-steps", "3"]) == 0
        capsys.readouterr()
    assert_equal_runs("runs/0", "runs/2")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no/*.gz"], r"--data\.train-path 'no/\*\.gz'"),
        (["text.txt", "gone"], r"--data\.train-path 'gone'"),
        (["a.jsonl"], r"a\.jsonl: --data\.field .*pass --data\.field text"),
        (["a.jsonl", "--data.field", "txt"], r"'txt'.*\['id', 'text'\]"),
        (["a.parquet", "--data.column", "txt"], r"--data\.column .*id, text.*'txt'"),
        (["a.parquet", "--data.column", "id"], "'id'.*int64"),
        (["text.txt", "--data.field", "text"], r"data\.field.*'text'"),
        (["text.txt", "--data.column", "c"], r"--data\.column 'c'.*--data\.format csv"),
        (["rows.txt"], r"--data\.format jsonl and --data\.field, or --data\.format text"),
        (["text.txt", "tokens.npy"], r"tokens\.npy.*text\.txt"),
        (["bad.jsonl", "--data.field", "text"], r"bad\.jsonl, line 1"),
        (["text.txt", "--data.errors", "ignore"], r"data\.errors.*'ignore'"),
    ],
)
def test_unreadable_files_are_rejected_before_anything_is_written(
    tiny, rows, capsys, words, message
):
    write_rows(Path("."), "a.jsonl", rows)
    write_rows(Path("."), "a.parquet", rows)
    Path("tokens.npy").write_bytes(b"numbers")
    Path("bad.jsonl").write_text("{]\n")
    Path("rows.txt").write_text('{"text": "a"}\n' * 3)
    assert train(tiny, "--data.train-path", *words) == 2
    assert re.search(message, error_of(capsys, "train"))
    assert not Path("run").exists()


# ------------------------------------------------------------------ find_sources


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write small files to the current directory."""
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("some text")
    Path("b.txt").write_text("more text")
    Path("a.jsonl").write_text(json.dumps({"text": "a row"}) + "\n")
    Path("a.npy").write_bytes(b"ids")
    Path("b.npy").write_bytes(b"ids")


def find(train, valid=None, **options):
    """Return the training files of a configuration."""
    (corpus,) = find_sources(DataConfig(train_path=train, valid_path=valid, **options)).train
    return corpus.whole


def test_rows_and_several_files_are_separated_by_a_token_and_a_single_text_is_not(files):
    assert find("a.txt").end_of_document is None
    assert find(("a.txt", "b.txt")).end_of_document == END
    assert find("a.jsonl", field="text").end_of_document == END


def test_the_fingerprint_depends_on_the_text_and_the_reading_options(files):
    def fingerprint(*paths, **options):
        return find(paths, **options).fingerprint(lambda file: Path(file).read_text())

    found = [
        fingerprint("a.txt"),
        fingerprint("b.txt"),
        fingerprint("a.txt", errors="strict"),
        fingerprint("a.txt", "b.txt"),
        fingerprint("b.txt", "a.txt"),
        fingerprint("a.jsonl", field="text"),
        fingerprint("a.npy", tokenizer="tok"),
        fingerprint("a.npy", "b.npy", tokenizer="tok"),
    ]
    assert len({json.dumps(each) for each in found}) == len(found)
    Path("a.txt").rename("moved.txt")
    assert fingerprint("moved.txt", "b.txt") == found[3]  # file names do not matter


def test_a_text_shorter_than_a_context_is_rejected(files):
    train = find("a.txt")  # 9 bytes
    check_length("data.train_path", train, 9)
    with rejects("data.train_path", 9):
        check_length("data.train_path", train, 10)
    check_length("data.train_path", find("a.jsonl", field="text"), 1000)  # unknown length
    check_length("data.train_path", None, 1000)


def test_an_absolute_path_matches_the_same_files(tmp_path, monkeypatch):
    odd = tmp_path / "odd [1]"
    odd.mkdir()
    monkeypatch.chdir(odd)
    Path("c.txt").write_text("text")
    for path in ("c.txt", "*.txt"):
        assert Corpus(absolute_path(path)).files == (str(odd / "c.txt"),)
    assert absolute_path("s3://bucket/*.txt") == "s3://bucket/*.txt"


def test_a_changed_token_file_is_noticed(tiny, token_files, capsys):
    assert train(tiny, "--data.train-path", "a.npy", "b.npy", *token_files) == 0
    with open("b.npy", "r+b") as file:
        file.seek(128)  # the first id
        file.write(b"\7\0")
    assert main(["--resume", "run", "--max-steps", "3"]) == 2
    assert "start a new run" in capsys.readouterr().err


def test_a_run_interrupted_while_it_encodes_goes_on(tiny, rows, monkeypatch, capsys):
    write_rows(Path("."), "a.jsonl.gz", rows)
    words = ["--data.train-path", "a.jsonl.gz", "--data.field", "text"]

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as early:
        early.setattr("cs336_basics.data.prepare.encode_file", stop)
        assert train(tiny, *words) == 130
    assert main(["--resume", "run"]) == 0
    out = capsys.readouterr().out
    assert "text: unchanged" in out
    assert "tokenizer: unchanged" in out
    assert "train tokens: done" in out
    assert train(tiny, *words, run="whole") == 0
    assert_equal_runs("run", "whole")
