"""A command's outputs replace neither its inputs nor each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from cs336_basics._support.errors import InputError, OutputExistsError
from cs336_basics.commands._outputs import check_output
from tests.commands.small_run import command
from tests.errors import rejects
from tests.tokenizer.examples import small_tokenizer


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write an input file, a symbolic link and a hard link to it, another file, and a tokenizer."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("the cat sat " * 50)
    Path("link.txt").symlink_to("text.txt")
    Path("hard.txt").hardlink_to("text.txt")
    Path("mine.npy").write_text("mine")
    small_tokenizer().save("tok")
    return tmp_path


@pytest.mark.parametrize(
    "file", ["text.txt", "link.txt", "hard.txt", "./tok/../text.txt", "new", "new/t.csv", "."]
)
def test_an_input_and_the_tokenizer_directory_are_rejected(files, file):
    with pytest.raises(InputError) as error:
        check_output("--trace", file, True, ["text.txt"], "new")
    assert file in str(error.value)


def test_a_directory_is_rejected(files):
    with pytest.raises(IsADirectoryError, match="tok"):
        check_output("--trace", "tok", True, ["text.txt"], "new")


def test_another_output_is_rejected(files):
    with rejects(None, "new.csv"):
        check_output("--trace", "new.csv", True, ["./new.csv"])


def test_an_existing_file_is_replaced_only_with_overwrite(files):
    with rejects(None, "mine.npy", kind=OutputExistsError):
        check_output("--trace", "mine.npy", False, ["text.txt"], "new")
    check_output("--trace", "mine.npy", True, ["text.txt"], "new")
    check_output("--trace", "other.txt", False, ["text.txt"], "new")
    check_output("--trace", None, False, ["text.txt"], "new")


def test_another_ending_is_rejected(files):
    with rejects("--output", ".npy", "'new.txt'"):
        check_output("--output", "new.txt", True, [], ending=".npy")
    check_output("--output", "new.npy", True, [], ending=".npy")


INPUT = ["--input", "text.txt", "--num-workers", "1"]
TOKENIZER = ["--tokenizer", "tok", *INPUT]
LINES = {
    "--save-counts": ("train-bpe", [*INPUT, "--vocab-size", "260", "--output", "new"]),
    "--trace": ("train-bpe", [*INPUT, "--vocab-size", "260", "--output", "new"]),
    "--id-map": ("prune", [*TOKENIZER, "--vocab-size", "258", "--output", "new"]),
    "--output": ("tokens", TOKENIZER),
}


@pytest.mark.parametrize("option", LINES)
@pytest.mark.parametrize("file", ["text.txt", "tok/tokenizer.json", "mine.npy", "new"])
def test_every_command_checks_its_outputs(files, option, file, capsys):
    name, words = LINES[option]
    main = command(name)
    if file == "tok/tokenizer.json" and name == "train-bpe":
        words = [*words, "--continue", "tok", "--vocab-size", str(len(small_tokenizer()) + 1)]
    if option == "--output" and file == "new":
        Path("new").write_text("mine")
    overwrite = [] if file in ("mine.npy", "new") else ["--overwrite"]
    before = {path: path.read_bytes() for path in files.rglob("*") if path.is_file()}
    assert main([*words, option, file, *overwrite]) == 2
    assert file in capsys.readouterr().err
    assert {path: path.read_bytes() for path in files.rglob("*") if path.is_file()} == before
    if option in ("--id-map", "--output"):
        assert main([*words, option, "other.txt"]) == 2
        assert "must end in .npy" in capsys.readouterr().err
    if file == "mine.npy":
        assert main([*words, option, file, "--overwrite"]) == 0
        assert Path(file).read_bytes() != b"mine"
