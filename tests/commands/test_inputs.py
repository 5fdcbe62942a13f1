"""Standard input, directories, and formats detected from the content."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys

import pytest

from cs336_basics import Tokenizer, train_bpe
from cs336_basics.commands._inputs import say_directories
from tests.commands.small_run import command, pipe
from tests.processes import wait

TEXT = "the cat sat on the mat, and the dog sat on the cat\n" * 20

train_bpe_command = command("train-bpe")


def trained(output, *options):
    status = train_bpe_command(
        ["--vocab-size", "270", "--output", str(output), "--num-workers", "1", *map(str, options)]
    )
    return Tokenizer.from_directory(output) if status == 0 else None


@pytest.fixture
def expected(tmp_path):
    path = tmp_path / "plain"
    path.write_text(TEXT)
    return train_bpe(path, 270, [])[1]


def test_standard_input_can_be_text_or_json_lines(tmp_path, monkeypatch, expected):
    pipe(monkeypatch, TEXT.encode())
    assert trained(tmp_path / "out", "--input", "-").merges == expected
    training = json.loads((tmp_path / "out" / "training.json").read_text())
    assert [file["path"] for file in training["corpus"]] == ["standard input"]
    rows = json.dumps({"text": TEXT}).encode()
    pipe(monkeypatch, rows)
    found = trained(tmp_path / "rows", "--input", "-", "--format", "jsonl", "--field", "text")
    assert found.merges == expected


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"", "standard input is empty"), (b'{"text": "a"}\n', "standard input .*JSON")],
)
def test_invalid_standard_input_is_rejected(tmp_path, monkeypatch, capsys, data, message):
    pipe(monkeypatch, data)
    assert trained(tmp_path / "out", "--input", "-") is None
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_the_copy_of_standard_input_is_deleted_after_a_signal(tmp_path, name):
    number = getattr(signal, name)
    words = ["train-bpe", "--input", "-", "--vocab-size", "270", "--output", "out"]
    process = subprocess.Popen(
        [sys.executable, "-m", "cs336_basics", *words],
        stdin=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # nohup ignores SIGHUP
    )
    wait(lambda: list(tmp_path.glob("cs336-*/stdin")) or process.poll() is not None)
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    process.stdin.close()
    assert list(tmp_path.iterdir()) == []


def test_the_files_of_a_directory_are_listed(tmp_path, capsys, expected):
    folder = tmp_path / "docs"
    (folder / "deep").mkdir(parents=True)
    (folder / "b.md").write_text(TEXT)
    (folder / "deep" / "a.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    (folder / "c.png").write_bytes(b"\x89PNG")
    (folder / "d").write_text(TEXT)
    assert trained(tmp_path / "out", "--input", folder).merges == expected
    printed = capsys.readouterr().out
    assert f"{folder}: 2 files\n  b.md\n  deep/a.txt.gz\n" in printed
    assert f"{folder}: left out: 2 files with other extensions (.png, none)" in printed
    for number in range(30):
        (folder / f"{number}.txt").write_text("a")
    trained(tmp_path / "more", "--input", folder)
    assert "\n  and 12 more\n" in capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt", reason="file names cannot contain line feeds")
def test_a_listed_name_is_one_line(tmp_path, capsys):
    for name in ("a\nb.txt", "c \n.md"):
        (tmp_path / name).write_text(TEXT)
    say_directories([str(tmp_path)])
    assert capsys.readouterr().out.splitlines()[1:] == [r"  'a\nb.txt'", r"  'c \n.md'"]


def test_the_error_for_a_text_without_a_split_point_has_the_option(tmp_path, capsys):
    (tmp_path / "nul.txt").write_bytes(bytes(3 << 20))
    options = ["--input", tmp_path / "nul.txt", "--max-piece-bytes", 1 << 20]
    assert trained(tmp_path / "out", *options) is None
    assert re.search(r"nul\.txt.* 1,048,576 .*--max-piece-bytes", capsys.readouterr().err)


@pytest.mark.parametrize("option", ["--output", "--trace", "--save-counts", "--input"])
def test_the_error_for_a_circular_link_names_it(tmp_path, capsys, option):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "text").write_text(TEXT)
    paths = {"--output": tmp_path / "out", "--input": tmp_path / "text", option: tmp_path / "loop"}
    words = [str(word) for pair in paths.items() for word in pair]
    assert train_bpe_command(["--vocab-size", "270", "--overwrite", *words]) in (1, 2)
    assert re.search("loop.* link", capsys.readouterr().err)
