"""Help, unknown options, missing packages and missing files for every command."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cs336_basics.__main__ import main
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.commands import COMMANDS
from tests.commands.small_run import error_of
from tests.processes import run_python
from tests.tokenizer.examples import small_tokenizer

ALL = {
    name: importlib.import_module(f"cs336_basics.commands.{name.replace('-', '_')}").COMMAND
    for name in COMMANDS
}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_a_short_page_and_help_all_shows_every_option(command, capsys):
    assert main([command, "--help"]) == 0
    page = capsys.readouterr().out
    assert page.startswith(f"usage: python -m cs336_basics {command}")
    assert len(page.splitlines()) <= 40
    assert main([command, "--help-all"]) == 0
    rows = re.findall(r"^  (\S+)", capsys.readouterr().out, re.MULTILINE)
    for name, field in ALL[command].fields().items():
        assert rows.count(ALL[command].shown(name).split()[0]) == 1
        assert field.help


def test_the_help_command_shows_the_page_of_a_command(capsys):
    pages = []
    for words in (["help"], ["--help"], ["help", "train_bpe"], ["train-bpe", "--help"]):
        assert main(words) == 0
        pages.append(capsys.readouterr().out)
    assert pages[0] == pages[1] != pages[2] == pages[3]
    assert main(["help", "trian"]) == 2
    assert "did you mean 'train" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_can_be_parsed(command):
    page = ALL[command].help_page(["--help-all"])
    examples = page.partition("\n\n  ")[2].partition("\n\n")[0].replace("\\\n", " ").splitlines()
    assert examples
    for example in examples:
        words = shlex.split(example.partition(" > ")[0])
        assert words[:4] == ["python", "-m", "cs336_basics", command]
        if "--resume" not in words:
            ALL[command].given(words[4:])


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("datasets show", "'show'"),
        ("download owt --split tets", "--split .*'tets'"),
        ("train-bpe --vocab-size 300 --output new", "give --input, --mix, --parity or --counts"),
        ("compare --gigabytes inf", "--gigabytes .*'inf'"),
        ("encode --tokenizer a --input b --num-workers 4097", "--num-workers .*'4097'"),
        ("estimate --precision float64", "precision .*'float64'"),
        ("plot a --ymax 0", "--ymax .*'0'"),
        ("generate --seed 18446744073709551616", "--seed .*'18446744073709551616'"),
        ("export --to hugingface --output a", "--to .*'hugingface'"),
        ("completion fish", "'fish'"),
    ],
)
def test_an_invalid_value_is_a_one_line_error(line, named, capsys):
    command = line.split()[0]
    assert main(line.split()) == 2
    assert re.search(named, error_of(capsys, command))


# The next tests run without torch, matplotlib and safetensors.

PROGRAM = """
import contextlib, io, json
from cs336_basics.__main__ import main
outcomes = []
for words in {lines!r}:
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        status = main(words)
    outcomes.append([status, out.getvalue(), error.getvalue()])
print(json.dumps(outcomes))
"""


def run_all(lines, missing=("torch", "matplotlib", "safetensors"), directory=None):
    """Run commands in one new process where some packages are missing."""
    code = PROGRAM.format(lines=lines)
    done = run_python(code, missing=missing, cwd=directory, OMP_NUM_THREADS="1")
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write a text, a tokenizer, a run with metrics, and an empty file."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("the cat sat on the mat " * 50)
    Path("file").write_text("")
    small_tokenizer().save("tok")
    run = RunDirectory("run")
    run.create()
    run.append_metrics({"step": 1, "tokens": 1, "train_loss": 1.0}, {"seconds": 1.0})
    run.unlock()
    return tmp_path


def test_help_pages_need_no_optional_packages():
    lines = [[command, "--help"] for command in COMMANDS]
    missing = ("torch", "matplotlib", "safetensors", "shtab")
    for (command, _), (status, out, error) in zip(lines, run_all(lines, missing), strict=True):
        assert (status, error) == (0, ""), command
        assert out.startswith(f"usage: python -m cs336_basics {command}")


def test_help_without_docstrings_has_no_signature():
    command = [sys.executable, "-OO", "-m", "cs336_basics", "tokens", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Options(" not in done.stdout
    assert "--input FILE" in done.stdout


def test_the_list_of_commands_imports_little():
    code = """
import sys
from cs336_basics.__main__ import main
main([])
heavy = ("numpy", "torch", "regex", "yaml")
print([name for name in heavy if name in sys.modules])
"""
    assert run_python(code).stdout.splitlines()[-1] == "[]"


TORCH = "'cs336-basics[torch]'"
NEEDS = [
    (["train", "--data.train-path", "text.txt"], TORCH),
    (["estimate", "--no-measure"], TORCH),
    (["generate", "--run", "run"], TORCH),
    (["experiments", "--scale", "test", "--out", "new"], TORCH),
    (["export", "--run", "run", "--to", "huggingface", "--output", "new"], TORCH),
    (["plot", "run"], "matplotlib"),
]


def test_the_error_for_a_missing_package_has_the_command_that_installs_it(files):
    outcomes = run_all([words for words, _ in NEEDS], directory=files)
    for ((command, *_), package), (status, out, error) in zip(NEEDS, outcomes, strict=True):
        assert (status, out) == (2, "")
        assert error.startswith(f"cs336 {command}: error: ")
        assert error.endswith(f"pip install {package}\n")
    assert not (files / "new").exists()


NUMPY_BEFORE_TORCH = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print("NumPy is imported:", "numpy" in sys.modules)
            raise ModuleNotFoundError("torch", name="torch")
sys.meta_path.insert(0, Finder())
from cs336_basics.__main__ import main
main({words!r})
"""


@pytest.mark.parametrize(
    "words",
    [words for words, package in NEEDS if package == TORCH]
    + [
        ["evaluate", "--run", "run", "--input", "text.txt"],
        ["report", "--run", "run", "--output", "page.html"],
    ],
    ids=lambda words: words[0],
)
def test_numpy_is_imported_before_torch_which_would_ignore_an_interrupt_meanwhile(files, words):
    done = run_python(NUMPY_BEFORE_TORCH.format(words=words), cwd=files)
    assert set(done.stdout.splitlines()) == {"NumPy is imported: True"}


def test_commands_on_text_and_tokenizers_need_no_optional_packages(files):
    text = ["--tokenizer", "tok", "--input", "text.txt"]
    lines = [
        ["datasets", "list"],
        ["download", "sample", "--split", "valid"],
        ["train-bpe", "--input", "text.txt", "--vocab-size", "260", "--output", "trained"],
        ["encode", *text, "--output", "out.npy"],
        ["compare", *text],
        ["tokens", *text],
        ["prune", *text, "--vocab-size", "258", "--output", "pruned"],
        ["export", "--tokenizer", "tok", "--to", "gpt2", "--output", "gpt2"],
    ]
    for words, (status, _, error) in zip(lines, run_all(lines, directory=files), strict=True):
        assert status == 0, (words[0], error)


# Missing files, and files that cannot be written.


TRAIN_BPE = ["train-bpe", "--vocab-size", "260", "--num-workers", "1"]
ENCODE = ["encode", "--tokenizer", "tok", "--num-workers", "1"]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ([*TRAIN_BPE, "--output", "new", "--input", "none.txt"], "none.txt"),
        ([*TRAIN_BPE, "--output", "new", "--counts", "none.npz"], "none.npz"),
        ([*TRAIN_BPE, "--output", "new", "--input", "tok"], "tok"),
        ([*TRAIN_BPE, "--output", "new", "--counts", "tok"], "tok"),
        ([*TRAIN_BPE, "--input", "text.txt", "--output", "file/new"], "file/new"),
        ([*ENCODE, "--output", "new.npy", "--input", "none.txt"], "none.txt"),
        ([*ENCODE, "--output", "new.npy", "--input", "tok"], "tok"),
        ([*ENCODE, "--output", "file/new.npy", "--input", "text.txt"], "file/new.npy"),
        (["encode", "--tokenizer", "none", "--output", "new.npy", "--input", "text.txt"], "none"),
        (["train", "--run-dir", "new", "--data.train-path", "none.txt"], "none.txt"),
        (["train", "--run-dir", "new", "--data.train-path", "tok"], "tok"),
        (["train", "--run-dir", "new", "--data.tokenizer", "none"], "none"),
        (["train", "--config", "none.yaml"], "none.yaml"),
        (["train", "--config", "tok"], "tok"),
        (["train", "--resume", "none"], "none"),
        (["train", "--run-dir", "file/new"], "file/new"),
        (["estimate", "--config", "none.yaml"], "none.yaml"),
        (["plot", "none"], "none"),
        (["plot", "run", "--output", "file/new.png"], "file"),
        (["generate", "--run", "none"], "none"),
        (["experiments", "--scale", "test", "--out", "new", "--train-path", "no.txt"], "no.txt"),
        (["experiments", "--scale", "test", "--out", "file/new"], "file/new"),
        (["download", "sample", "--data-dir", "file/new"], "file/new"),
    ],
)
def test_the_error_for_an_unusable_file_names_it_and_nothing_is_written(files, words, name, capsys):
    before = sorted(path.name for path in files.iterdir())
    capsys.readouterr()
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith(f"cs336 {words[0]}: error: ")
    assert name in error
    assert "Errno" not in error
    assert sorted(path.name for path in files.iterdir()) == before
