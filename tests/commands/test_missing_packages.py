"""Commands without torch, matplotlib and safetensors: help pages, work that needs none, advice."""

import json
import subprocess
import sys

import pytest

from cs336_basics.commands import COMMANDS
from tests.commands.small_run import environment
from tests.tokenizer.examples import small_tokenizer

PROGRAM = """
import sys
missing = {missing!r}
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from cs336_basics.__main__ import main
sys.exit(main({words!r}))
"""
TORCH = ("torch", "matplotlib", "safetensors")


def run(*words, missing=TORCH, directory=None):
    code = PROGRAM.format(missing=missing, words=[str(word) for word in words])
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
        env=environment(),
    )


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


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("option", ["--help", "--help-all"])
def test_help_pages_need_none_of_them(command, option):
    done = run(command, option)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: python -m cs336_basics {command}")


@pytest.mark.parametrize(
    ("words", "package"),
    [
        (["train", "--data.train-path", "text.txt"], "torch"),
        (["estimate", "--no-measure"], "torch"),
        (["generate", "--run", "run"], "torch"),
        (["experiments", "--scale", "test", "--out", "new"], "torch"),
        (["export", "--run", "run", "--to", "huggingface", "--output", "new"], "torch"),
        (["plot", "run"], "matplotlib"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_a_command_that_needs_one_says_so_in_a_sentence(work, words, package):
    done = run(*words, directory=work)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        f"cs336 {words[0]}: error: {words[0]} needs {package}, which is not installed: "
        f"pip install {package}\n"
    )
    assert not (work / "new").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["datasets", "list"],
        ["download", "sample", "--split", "valid"],
        ["train-bpe", "--input", "text.txt", "--vocab-size", "260", "--output", "trained"],
        ["encode", "--tokenizer", "tokenizer", "--input", "text.txt", "--output", "out.npy"],
        ["compare", "--tokenizer", "tokenizer", "--input", "text.txt"],
        ["export", "--tokenizer", "tokenizer", "--to", "gpt2", "--output", "gpt2"],
    ],
    ids=lambda words: words[0],
)
def test_text_and_tokenizers_need_none_of_them(work, words):
    done = run(*words, directory=work)
    assert done.returncode == 0, done.stderr


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
