"""`python -m cs336_basics encode`: its output, statistics and errors."""

from __future__ import annotations

import json
import re

import pytest

from cs336_basics.tokenizer import load_document_starts, load_token_file
from tests.commands.small_run import command
from tests.tokenizer.examples import END, TRAINING_TEXT, small_tokenizer

main = command("encode")


@pytest.fixture
def files(tmp_path):
    small_tokenizer().save(tmp_path / "tokenizer")
    (tmp_path / "text.txt").write_text(TRAINING_TEXT, encoding="utf-8", newline="")
    return tmp_path


def arguments(files, **changes) -> list[str]:
    options = {
        "tokenizer": files / "tokenizer",
        "input": files / "text.txt",
        "output": files / "text.npy",
        "num-workers": 1,
        **changes,
    }
    return [part for name, value in options.items() for part in (f"--{name}", str(value))]


def test_a_file_is_encoded_and_statistics_are_printed(files, capsys):
    assert main(arguments(files)) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    tokens = load_token_file(files / "text.npy")
    assert tokens.tolist() == small_tokenizer().encode(TRAINING_TEXT)
    lines = {line.split("  ")[0]: line.split()[-1] for line in printed.out.splitlines()}
    assert f"{len(tokens):,} (uint16)" in printed.out
    assert float(lines["bytes per token"]) == pytest.approx(
        len(TRAINING_TEXT.encode()) / len(tokens), abs=1e-3
    )
    assert "MB/s" in printed.out
    assert lines["written to"] == str(files / "text.npy")


def test_files_of_several_formats_are_encoded_together(files, capsys):
    rows = ["the cat", "", "ate"]
    (files / "rows.jsonl").write_text("".join(json.dumps({"body": row}) + "\n" for row in rows))
    command = arguments(files, input=files / "te*.txt")
    command[command.index("--output") : 0] = [str(files / "rows.jsonl")]
    more = ["--field", "body", "--document-starts", "--end-of-document", END]
    assert main([*command, *more]) == 0
    tokens = load_token_file(files / "text.npy")
    encode = small_tokenizer().encode
    assert tokens.tolist() == encode(TRAINING_TEXT + END + "the cat" + END + "ate" + END)
    starts = load_document_starts(files / "text.npy")
    second = len(encode(TRAINING_TEXT)) + 1
    assert starts.tolist() == [0, second, second + len(encode("the cat")) + 1]
    assert "documents        3\n" in capsys.readouterr().out


def test_strict_rejects_invalid_utf_8(files, capsys):
    (files / "text.txt").write_bytes(b"the \xff")
    assert main([*arguments(files), "--errors", "strict"]) == 2
    error = capsys.readouterr().err
    assert re.search(r"0xff.* 4\b.*--errors replace", error)
    assert "errors=" not in error
    assert main(arguments(files)) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output", "-"], "with --ray, --output must be a directory or a URL, not -"),
        (["--overwrite"], "--ray does not replace a directory; remove --overwrite"),
    ],
)
def test_options_that_do_not_go_with_ray_are_rejected(files, capsys, options, message):
    assert main([*arguments(files, output=files / "out"), "--ray", "local", *options]) == 2
    assert message in capsys.readouterr().err
