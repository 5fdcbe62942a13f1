"""What is stable has not changed, and the files of earlier versions can still be read."""

import difflib
import importlib
import pkgutil
import shutil
from pathlib import Path

import pytest

import cs336_basics
from cs336_basics import Tokenizer, load_run
from cs336_basics.__main__ import main
from cs336_basics.bpe import TRAINERS
from cs336_basics.counting import WordCounts, count_texts
from cs336_basics.splitting import Splitter
from cs336_basics.tokenizer import load_document_starts, load_token_file
from cs336_basics.training import AdamW, load_checkpoint
from tools import example_files, experimental, interface

ROOT = Path(__file__).parents[2]
FILES = ROOT / "tests" / "files"
VERSIONS = sorted(path.name for path in FILES.iterdir())

ADVICE = """\
What users rely on has changed. If this is intended, run `python -m tools.interface`, and add a line
to CHANGELOG.md that says what a user must do; docs/stability.md says which changes are allowed."""


@pytest.mark.skipif(
    not all(trainer.is_built for trainer in TRAINERS.values()),
    reason="the extensions are not built",
)
@pytest.mark.filterwarnings("ignore:no pair was left:UserWarning")
def test_what_is_stable_has_not_changed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("cs336_basics.training.trainer.plot_run", lambda run: None)
    example_files.write(tmp_path)
    capsys.readouterr()  # the reports of the commands
    before = interface.LIST.read_text(encoding="utf-8").splitlines()
    after = interface.render(tmp_path).splitlines()
    changes = difflib.unified_diff(before, after, "tools/interface.txt", "the code", lineterm="")
    text = "\n".join(changes)
    if text:
        pytest.fail(f"{ADVICE}\n\n{text}", pytrace=False)


@pytest.mark.parametrize("name", sorted(experimental.NAMES))
def test_experimental_names_exist(name):
    pkgutil.resolve_name(f"cs336_basics.{name}")


def test_experimental_options_exist():
    for line in experimental.OPTIONS:
        name, start = line.split()
        module = importlib.import_module(f"cs336_basics.commands.{name.replace('-', '_')}")
        options = map(module.COMMAND.shown, module.COMMAND.fields())
        assert any(option.startswith(start) for option in options), line


@pytest.fixture(params=VERSIONS)
def earlier(request):
    """The directory of the files that a released version wrote."""
    return FILES / request.param


def test_the_files_of_this_minor_version_are_kept():
    assert cs336_basics.__version__.rpartition(".")[0] in {v.rpartition(".")[0] for v in VERSIONS}


def test_tokenizers_and_token_files_of_earlier_versions_are_read(earlier):
    tokenizer = Tokenizer.from_directory(earlier / "tokenizer")
    text = (earlier / "text.txt").read_bytes().decode()
    ids = load_token_file(earlier / "tokens.npy", tokenizer_hash=tokenizer.hash())
    assert tokenizer.encode(text) == ids.tolist()
    starts = load_document_starts(earlier / "tokens.npy").tolist()
    assert len(starts) == len([part for part in text.split(example_files.END) if part])


def test_word_counts_of_earlier_versions_are_read(earlier):
    text = (earlier / "text.txt").read_bytes().decode()
    splitter = Splitter(special_tokens=[example_files.END])
    assert WordCounts.load(earlier / "counts.npz") == count_texts([text], splitter)


def test_checkpoints_of_earlier_versions_are_read(earlier):
    model = example_files.linear_model()
    optimizer = AdamW(model.parameters())
    assert load_checkpoint(earlier / "checkpoint.pt", model, optimizer) == 7


def test_runs_of_earlier_versions_are_loaded_and_resumed(earlier, tmp_path, monkeypatch):
    monkeypatch.setattr("cs336_basics.training.trainer.plot_run", lambda run: None)
    assert load_run(earlier / "run").generate("One day", max_new_tokens=4)
    shutil.copytree(earlier / "run", tmp_path / "run")
    command = ["train", "--resume", str(tmp_path / "run"), "--max-steps", "4"]
    assert main([*command, "--schedule", "extend"]) == 0
    assert (tmp_path / "run" / "checkpoints" / "step_00000004.safetensors").is_file()
