"""Every bad value of an option is told in one line, and a bug has a traceback."""

from __future__ import annotations

import importlib

import pytest

from cs336_basics.__main__ import main
from cs336_basics._support.errors import InputError
from cs336_basics.text import Corpus
from tests.tokenizer.examples import TRAINING_TEXT, small_tokenizer

LINES = {
    "train-bpe": "--input a.txt --vocab-size 300 --output new",
    "encode": "--tokenizer tok --input a.txt --output new.npy",
    "decode": "--tokenizer tok --input ids.txt",
    "tokenize": "--tokenizer tok a.txt",
    "tokens": "--tokenizer tok --input a.txt",
    "prune": "--tokenizer tok --input a.txt --vocab-size 265 --output new",
    "compare": "--tokenizer tok --input a.txt",
    "report": "--tokenizer tok --input a.txt --output new.html",
    "export": "--tokenizer tok --to huggingface --output new",
    "explain": "low",
    "datasets": "",
    "completion": "bash",
}
"""Command lines without torch. `train` has the same checks, one for each field."""

VALUES = ("", "-1", "99999999999999999999", "nowhere/none", "damaged.jsonl", "damaged.npy")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_tokenizer().save("tok")
    (tmp_path / "a.txt").write_text(TRAINING_TEXT, encoding="utf-8")
    (tmp_path / "ids.txt").write_text("1 2 3")
    (tmp_path / "damaged.jsonl").write_text('{"text": 3}\n{]\n')
    (tmp_path / "damaged.npy").write_bytes(b"\x93NUMPY\1\0")
    return tmp_path


@pytest.mark.parametrize("name", LINES)
def test_a_bad_value_has_no_traceback(files, capsys, name):
    command = importlib.import_module(f"cs336_basics.commands.{name.replace('-', '_')}").COMMAND
    for option in command.fields():
        for value in VALUES:
            words = LINES[name].split()
            shown = command.shown(option)
            if shown in words:
                words[words.index(shown) + 1] = value
            else:
                words += [shown, value] if shown.startswith("--") else [value]
            status = main([name, *words])
            error = capsys.readouterr().err
            assert status in (0, 2), (words, error)
            errors = [line for line in error.splitlines() if ": error: " in line]
            assert len(errors) == (status == 2), (words, error)


def test_a_bug_of_the_library_has_a_traceback(files, monkeypatch):
    def fail(*_, **__):
        raise TypeError("a bug")

    monkeypatch.setattr(Corpus, "__init__", fail)
    with pytest.raises(TypeError, match="a bug") as caught:
        main(["train-bpe", *LINES["train-bpe"].split()])
    assert not isinstance(caught.value, InputError)
