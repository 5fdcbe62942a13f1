"""`python -m cs336_basics report`: its files and errors."""

import re
from pathlib import Path

import pytest

from cs336_basics.__main__ import main
from cs336_basics.checkpoints.run_dir import RunDirectory
from tests.commands.small_run import command, error_of
from tests.data.test_documents import TEXTS, plain

report = command("report")

TOKENIZERS = ["--tokenizer", "a", "b", "--input", "text.txt"]


def test_html_and_markdown_are_written(work, capsys):
    assert report([*TOKENIZERS, "--output", "r.html", "r.md", "--title", "<b>Mine</b>"]) == 0
    assert capsys.readouterr().out == "written to r.html\nwritten to r.md\n"
    page = (work / "r.html").read_text(encoding="utf-8")
    assert "<h1>&lt;b&gt;Mine&lt;/b&gt;</h1>" in page
    assert page.count("<svg") == 1
    text = (work / "r.md").read_text(encoding="utf-8")
    titles = re.findall(r"<h2[^>]*>(.*?)</h2>", page)
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == titles
    assert titles[0] == "Tokenizers"
    assert report([*TOKENIZERS, "--output", "r.html"]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert report([*TOKENIZERS, "--output", "r.html", "--overwrite"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*TOKENIZERS, "--output", "r.pdf"], "'r.pdf'"),
        ([*TOKENIZERS, "--output", "r.html", "text.txt"], "'text.txt'"),
        ([*TOKENIZERS, "--output", "r.html", "./r.html"], "r.html is also"),
        ([*TOKENIZERS, "text.txt", "--output", "r.html"], "'text.txt' twice"),
        (["--tokenizer", "missing/x", *TOKENIZERS[3:], "--output", "r.html"], "missing/x"),
        (["--output", "r.html"], "--tokenizer and --input, or --run"),
        (["--tokenizer", "a", "--output", "r.html"], "--tokenizer and --input"),
        (["--tokenizer", "a", "--run", "x", "--output", "r.html"], "--tokenizer and --input"),
        (["--run", "missing", "--output", "r.html"], "missing"),
        (
            [*TOKENIZERS, "--checkpoint", "best", "--output", "r.html"],
            "--checkpoint requires --run",
        ),
    ],
)
def test_errors_are_one_line_and_write_nothing(work, capsys, words, message):
    assert report(words) == 2
    assert message in error_of(capsys, "report")
    assert not (work / "r.html").exists()


def test_the_tokenizer_of_a_run_is_the_default(tiny, capsys):
    assert main(["train", "--config", tiny, "--run-dir", "run"]) == 0
    plain(Path(), TEXTS)
    assert report(["--run", "run", "--input", "text.txt", "--output", "r.html"]) == 0
    page = Path("r.html").read_text(encoding="utf-8")
    assert '<h2 id="s0">Run run</h2>' in page
    assert "<td>run/tokenizer</td>" in page
    assert report(["--run", "run", "--output", "r.md"]) == 0
    assert Path("r.md").read_text(encoding="utf-8").startswith("# Run report\n")
    run = RunDirectory("run")
    for which, step in (("best", run.best().step), ("12", 12), ("8", 8)):
        words = ["--run", "run", "--checkpoint", which, "--output", "r.md", "--overwrite"]
        assert report(words) == 0
        text = Path("r.md").read_text(encoding="utf-8")
        assert f"weights are from {run.checkpoint(step).name}" in text.replace("\\_", "_")
