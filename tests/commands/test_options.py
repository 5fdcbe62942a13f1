"""Parsing a command line into a checked dataclass."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest

from cs336_basics.__main__ import main
from cs336_basics._support.errors import Argument
from cs336_basics._support.validation import Checked, Count, one_of, option
from cs336_basics.commands._options import Command, Several, UsageError
from cs336_basics.tokenizer import Tokenizer


@dataclass(kw_only=True)
class Options(Checked):
    """Do something."""

    texts: tuple[Path, ...] = option("files", metavar="TEXT ...", positional=True)
    size: Count = option("how many")
    input: Several | None = option("more files", None)
    kind: Literal["plain", "rich"] = option("which", "plain")
    trainer: Annotated[str, one_of(["naive", "heap"])] = option("which trainer", "heap")
    from_: str | None = option("a word", None)
    rate: float = option("100 % of it", 0.5, gt=0, argument="minimum", rare=True)
    point: tuple[float, float] = option("two numbers", (0.0, 1.0))
    num_rows: int = option("rows", 1)
    dry_run: bool = option("do nothing", False)


COMMAND = Command("do", Options, lambda options: 3 if options.dry_run else None, "do a --size 3")


def test_values_have_the_types_of_the_fields():
    words = "a b --size 7 --input x --input y z --kind rich --from _a-b --rate 1e-2"
    options = COMMAND.read([*words.split(), "--point", "1", "-2", "--dry_run"])
    assert options == Options(
        texts=(Path("a"), Path("b")),
        size=7,
        input=("x", "y", "z"),
        kind="rich",
        from_="_a-b",
        rate=0.01,
        point=(1.0, -2.0),
        dry_run=True,
    )
    assert COMMAND.read(["a", "--size", "7"]) == Options(texts=("a",), size=7)


def test_run_returns_the_exit_status():
    assert COMMAND.run(["a", "--size", "1"]) == 0
    assert COMMAND.run(["a", "--size", "1", "--dry-run"]) == 3


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("a", "--size is required"),
        ("--size 3", r"TEXT \.\.\. is required"),
        ("a --size 0", "--size .*'0'"),
        ("a --size x", "--size .*'x'"),
        ("a --size 1.5", "--size .*'1.5'"),
        ("a --size", r"--size expected one argument; see"),
        ("a --siz 3", "unknown option '--siz'; did you mean '--size'"),
        ("a --size=3 --form=x", "unknown option '--form'; did you mean '--from'"),
        ("a --size 3 -x", "unknown option '-x'"),
        ("a --size 3 --kind ric", "--kind .*'ric'"),
        ("a --size 3 --trainer hep", "--trainer .*'hep'"),
        ("a --size 3 --rate 0", "--rate .*'0'"),
        ("a --size 3 --rate nan", "--rate .*'nan'"),
        ("a --size 3 --point 1", "--point expected 2 arguments"),
        ("a --size 3 --point 1 x", r"--point .*\['1', 'x'\]"),
        ("a --size 3 --from -x", "for a value that starts with -, write --from=VALUE"),
        (
            "a --size 3 --from b c",
            "unexpected argument 'c'; write the name of its option before it",
        ),
        ("a --size 3 --from b c --siz", "unknown option '--siz'"),
        ("a --size 3 --input=", "--input must be a path, got ''"),
        ("a --size 3 --input x --input=", "--input must be a path, got ''"),
    ],
)
def test_an_invalid_command_line_is_a_one_line_error(words, named):
    with pytest.raises(UsageError) as error:
        COMMAND.read(words.split())
    message = error.value.message(COMMAND.written)
    assert re.search(named, message)
    assert "\n" not in message
    assert message.endswith("; see 'python -m cs336_basics do --help'")


def test_messages_write_arguments_as_options():
    written = COMMAND.written
    assert written(Argument("size")) == "--size"
    assert written(Argument("dry_run", True)) == "--dry-run"
    assert written(Argument("dry_run", False)) == "dry_run=False"
    assert written(Argument("size", 3)) == "--size 3"
    assert written(Argument("input", ["a", "b c"])) == "--input a 'b c'"
    assert written(Argument("from")) == "--from"
    assert written(Argument("texts")) == "TEXT ..."
    assert written(Argument("minimum", 1)) == "--rate 1"  # declared at the field
    assert written(Argument("unknown", "x")) == "unknown='x'"
    assert written(Argument("document_starts", True)) == "--document-starts of encode"
    assert written(Argument("document_starts")) == "document_starts"
    assert written(Argument("max_steps", 3)) == "max_steps=3"  # an option of other commands
    assert written(Argument("splitting", "regex")) == "splitting='regex'"  # of one other command


def test_an_empty_word_is_a_text_but_not_a_path():
    assert COMMAND.read(["a", "--size", "7", "--from", ""]).from_ == ""


def test_help_omits_rare_options(capsys):
    assert COMMAND.run(["--help"]) == 0
    page = capsys.readouterr().out
    assert "--size N" in page
    assert "--kind plain|rich" in page
    assert "(default: 0.0 1.0)" in page
    assert "--rate" not in page
    assert "1 more" in page
    assert COMMAND.run(["a", "--help-all"]) == 0
    assert "100 % of it (default: 0.5)" in capsys.readouterr().out


HOME = "HOME" if os.name != "nt" else "USERPROFILE"


def test_a_path_may_start_with_the_home_directory(work, monkeypatch, capsys):
    home = work / "home"
    home.mkdir()
    monkeypatch.setenv(HOME, str(home))
    shutil.move("text.txt", home / "text.txt")
    shutil.move("a", home / "a")
    tokenizer = ["--vocab-size=270", "--input=~/text.txt", "--output=~/new/b"]
    assert main(["train-bpe", *tokenizer]) == 0
    assert main(["encode", "--input=~/text.txt", "--tokenizer=~/a", "--output=~/text.npy"]) == 0
    assert main(["compare", "--input=~/text.txt", "--tokenizer=~/a"]) == 0
    assert {"a", "new", "text.npy"} <= set(os.listdir(home))
    assert not os.path.lexists("~")


def test_only_a_path_gets_the_home_directory(work, monkeypatch, capsys):
    monkeypatch.setenv(HOME, str(work))
    words = ["--vocab-size=270", "--input=text.txt", "--output=c", "--special-token=~/x"]
    assert main(["train-bpe", *words]) == 0
    assert "~/x" in Tokenizer.from_directory("c").special_tokens
