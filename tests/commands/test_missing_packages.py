"""Commands without torch, matplotlib and safetensors: help pages, work that needs none, advice."""

import json
import subprocess
import sys
from typing import NamedTuple

import pytest

from cs336_basics.commands import COMMANDS
from tests.commands.small_run import environment
from tests.tokenizer.examples import small_tokenizer

PROGRAM = """
import contextlib, io, json, sys
missing = {missing!r}
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from cs336_basics.__main__ import main
outcomes = []
for words in {lines!r}:
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        status = main(words)
    outcomes.append([status, out.getvalue(), error.getvalue()])
print(json.dumps(outcomes))
"""
TORCH = ("torch", "matplotlib", "safetensors")


class Outcome(NamedTuple):
    """What a command did."""

    returncode: int
    stdout: str
    stderr: str


def run_all(lines, missing=TORCH, directory=None):
    """Run commands in one new process, in which some packages are missing."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(missing=missing, lines=lines)],
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
        env=environment(),
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [Outcome(*values) for values in json.loads(done.stdout)]


def run(*words, missing=TORCH, directory=None):
    (outcome,) = run_all([list(words)], missing, directory)
    return outcome


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    directory = tmp_path_factory.mktemp("work")
    small_tokenizer().save(directory / "tokenizer")
    (directory / "text.txt").write_text("the cat sat on the mat. " * 200, encoding="utf-8")
    (directory / "run").mkdir()
    rows = [{"step": step, "tokens": step, "val_loss": 1.0} for step in (1, 2)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (directory / "run" / "metrics.jsonl").write_text(lines, encoding="utf-8")
    return directory


def test_help_pages_need_none_of_them():
    lines = [[command, option] for command in COMMANDS for option in ("--help", "--help-all")]
    for (command, _), done in zip(lines, run_all(lines), strict=True):
        assert (done.returncode, done.stderr) == (0, ""), command
        assert done.stdout.startswith(f"usage: python -m cs336_basics {command}")


NEEDS = [
    (["train", "--data.train-path", "text.txt"], "torch"),
    (["estimate", "--no-measure"], "torch"),
    (["generate", "--run", "run"], "torch"),
    (["experiments", "--scale", "test", "--out", "new"], "torch"),
    (["export", "--run", "run", "--to", "huggingface", "--output", "new"], "torch"),
    (["plot", "run"], "matplotlib"),
]


def test_a_command_names_the_missing_package_in_one_line(work):
    outcomes = run_all([words for words, _ in NEEDS], directory=work)
    for ((command, *_), package), done in zip(NEEDS, outcomes, strict=True):
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr == (
            f"cs336 {command}: error: {command} needs {package}, which is not installed: "
            f"pip install {package}\n"
        )
    assert not (work / "new").exists()


def test_text_and_tokenizers_need_none_of_them(work):
    text = ["--tokenizer", "tokenizer", "--input", "text.txt"]
    lines = [
        ["datasets", "list"],
        ["download", "sample", "--split", "valid"],
        ["train-bpe", "--input", "text.txt", "--vocab-size", "260", "--output", "trained"],
        ["encode", *text, "--output", "out.npy"],
        ["compare", *text],
        ["tokens", *text],
        ["prune", *text, "--vocab-size", "258", "--output", "pruned"],
        ["export", "--tokenizer", "tokenizer", "--to", "gpt2", "--output", "gpt2"],
    ]
    for words, done in zip(lines, run_all(lines, directory=work), strict=True):
        assert done.returncode == 0, (words[0], done.stderr)


def test_mistakes_in_the_options_are_reported_first(work):
    done = run("train", "--max-steps", "many", directory=work)
    assert done.returncode == 2
    assert "max-steps" in done.stderr
    assert "torch" not in done.stderr


def test_a_package_with_another_name_is_named_as_pip_knows_it(work):
    done = run("train", "--help", missing=("yaml",))
    assert done.returncode == 2
    assert done.stderr.endswith("needs yaml, which is not installed: pip install pyyaml\n")
    assert done.stderr.count("\n") == 1
