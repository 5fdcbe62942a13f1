"""`python -m cs336_basics explain`: drawings of the words on the command line."""

import os

import pytest

from cs336_basics.bpe.explain import explain as explained
from cs336_basics.bpe.explain import explain_superwords
from tests.commands.small_run import command, error_of

explain = command("explain")


@pytest.mark.parametrize(
    ("words", "stage", "arguments"),
    [
        (b"low lower widest", None, []),
        (b"low lower widest", "heap", ["--trainer", "heap", "--merges", "2"]),
        (b"\xff\x07 \x1b caf\xc3\xa9 \xe4\xb8", "native", ["--trainer", "native"]),
    ],
)
def test_the_drawings_of_the_words_are_printed(words, stage, arguments, capsys):
    text = os.fsdecode(words)
    assert explain([text, *arguments]) == 0
    printed = capsys.readouterr().out
    assert printed == explained(words.split(), 2, stage) + "\n"
    assert explain([*text.split(), *arguments]) == 0
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize("words", ["", " \n\t\u3000", "a" * 501])
def test_no_words_and_too_many_bytes_are_one_line_errors(words, capsys):
    assert explain([words]) == 2
    assert error_of(capsys, "explain")


def test_words_may_look_like_options(capsys):
    assert explain(["--trainer", "naive", "--merges=0", "--", "--a_b", "-x"]) == 0
    printed = capsys.readouterr().out
    assert printed == explained([b"--a_b", b"-x"], 0, "naive") + "\n"


def test_superwords_are_explained(capsys):
    text = "at the end  of the end"
    assert explain([text, "--superwords-after", "5", "--merges", "3", "--trainer", "naive"]) == 0
    printed = capsys.readouterr().out
    assert printed == explain_superwords("at the end of the end", 5, 3, "naive") + "\n"
    assert explain([" ", "--superwords-after", "5"]) == 2
    assert error_of(capsys, "explain")
