"""Test the package as a whole: import cost, import direction and built extensions."""

import ast
import functools
import importlib
import inspect
import re
from pathlib import Path

import pytest
import yaml

import cs336_basics
from tests.conftest import LONGEST_FILES, TESTS
from tests.documents.shell import MODEL, TRAINING
from tests.processes import run_python
from tests.tokenizer.examples import small_tokenizer

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "cs336_basics"
EXTENSIONS = sorted(PACKAGE.rglob("*.pyx"))
EXTENSION_NAMES = [".".join(s.relative_to(ROOT).with_suffix("").parts) for s in EXTENSIONS]

# Maps each folder to the folders that it may import. For text: text <- splitting <- counting <- bpe
# <- tokenizer. For models: model <- generation <- training, which also imports data and
# checkpoints. Commands may import all folders.
TEXT = {"text", "splitting", "counting", "execution"}
MAY_IMPORT = {
    "_support": set(),
    "execution": set(),
    "text": set(),
    "splitting": {"text"},
    "counting": {"text", "splitting", "execution"},
    "bpe": TEXT,
    "tokenizer": {*TEXT, "bpe"},
    "model": set(),
    "generation": {"model", "tokenizer"},
    "checkpoints": set(),
    "data": {*TEXT, "bpe", "tokenizer", "checkpoints"},
    "training": {"model", "generation", "checkpoints", "data", "tokenizer"},
    "experiments": {"checkpoints", "data", "training"},
    "formats": {*TEXT, "tokenizer", "model", "data", "checkpoints"},
    "reports": {*TEXT, "tokenizer", "model", "formats", "checkpoints", "training"},
    "playground": {*TEXT, "bpe", "tokenizer", "data", "checkpoints", "training"},
    "integrations": {*TEXT, "bpe", "tokenizer", "formats"},
}
MAY_IMPORT["playground"] |= {"model", "generation"}
for rules in MAY_IMPORT.values():
    rules.add("_support")
MAY_IMPORT["commands"] = set(MAY_IMPORT)
# Maps a file to another folder that it may import within a function.
MAY_ALSO_IMPORT = {
    "tokenizer/tokenizer.py": "formats",  # Tokenizer.from_* and Tokenizer.save
    "training/origin.py": "formats",  # --init-from DIRECTORY
}
WITHOUT_TORCH = (*TEXT, "bpe", "tokenizer", "data")


def test_the_changelog_and_the_citation_have_the_version_of_the_package():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)", changelog, re.MULTILINE)[1]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert newest == citation["version"] == cs336_basics.__version__


@functools.cache
def imports_of(path):
    """Return the full names of the modules that a Python file imports."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            found.append(node.module)
    return found


@pytest.mark.parametrize("name", cs336_basics.__all__)
def test_every_public_name_can_be_imported(name):
    assert getattr(cs336_basics, name) is not None
    assert name in dir(cs336_basics)


@pytest.mark.parametrize(
    "statement",
    [
        "import cs336_basics",
        "from cs336_basics import train_bpe, TRAINERS, BPE_Trainer, Tokenizer",
        "from cs336_basics.commands import download, encode, export, train_bpe",
        "import cs336_basics.formats",
    ],
)
def test_text_does_not_need_torch(statement):
    heavy = (
        "torch",
        "matplotlib",
        "ray",
        "datatrove",
        "datasets",
        "safetensors",
        "huggingface_hub",
        "tiktoken",
        "tokenizers",
        "transformers",
    )
    run = run_python(
        f"{statement}\nimport sys\nprint([name for name in {heavy!r} if name in sys.modules])"
    )
    assert run.stdout.strip() == "[]"


def test_native_training_imports_no_large_library(tmp_path):
    """Importing these libraries takes longer than training on a few megabytes of text."""
    (tmp_path / "text.txt").write_text("low low lower newest newest widest " * 9)
    heavy = (
        *("numpy", "tqdm", "regex", "torch", "zipfile", "multiprocessing"),
        *(f"cs336_basics.text.sources.{name}" for name in ("jsonl", "csv", "tables")),
    )
    run = run_python(
        "import sys\n"
        "before = set(sys.modules)\n"  # a measurement of coverage imports some
        "from cs336_basics import train_bpe\n"
        f"vocab, merges = train_bpe({str(tmp_path / 'text.txt')!r}, 270, ['<|endoftext|>'])\n"
        f"print(len(merges), [name for name in {heavy!r} if name in set(sys.modules) - before])"
    )
    assert run.stdout.strip() == "13 []"


def test_encoding_to_a_list_imports_no_large_library(tmp_path):
    """Importing these libraries takes longer than loading a tokenizer and encoding a line."""
    tokenizer = small_tokenizer()
    tokenizer.save(tmp_path)
    heavy = (
        *("numpy", "regex", "tqdm", "torch", "pathlib", "dataclasses", "inspect", "tempfile"),
        "cs336_basics.splitting.patterns.split_program",  # compiles patterns
    )
    run = run_python(
        "import sys\n"
        "before = set(sys.modules)\n"  # a measurement of coverage imports some
        "from cs336_basics import Tokenizer\n"
        f"tokenizer = Tokenizer.from_pretrained({str(tmp_path)!r})\n"
        "ids = tokenizer.encode('the cat')\n"
        "assert tokenizer.decode(ids) == 'the cat'\n"
        f"print(ids, [name for name in {heavy!r} if name in set(sys.modules) - before])"
    )
    assert run.stdout.strip() == f"{tokenizer.encode('the cat')} []"


def test_encoding_a_batch_without_dropout_does_not_import_it(tmp_path):
    """The import takes as long as encoding 200 kB of new text, and imports `inspect`."""
    tokenizer = small_tokenizer()
    tokenizer.save(tmp_path)
    run = run_python(
        "import sys\n"
        "from cs336_basics import Tokenizer\n"
        f"tokenizer = Tokenizer.from_pretrained({str(tmp_path)!r})\n"
        "rows = tokenizer.encode_batch_array(['the cat'])\n"
        "print(rows.ids.tolist(), 'cs336_basics.tokenizer.dropout' in sys.modules)"
    )
    assert run.stdout.strip() == f"{tokenizer.encode('the cat')} False"


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_imports_flow_one_way(folder):
    for path in (PACKAGE / folder).rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        allowed = MAY_IMPORT[folder] | {folder, MAY_ALSO_IMPORT.get(name)}
        for module in imports_of(path):
            parts = module.split(".")
            if folder in WITHOUT_TORCH:
                assert parts[0] != "torch", f"{name} imports torch"
            if parts[0] == "cs336_basics" and len(parts) > 1 and parts[1] in MAY_IMPORT:
                assert parts[1] in allowed, f"{name} imports {module}"


def test_the_files_with_which_pytest_starts_exist():
    assert [name for name in LONGEST_FILES if not (TESTS / name).is_file()] == []


@pytest.mark.parametrize("source", EXTENSIONS, ids=lambda path: path.stem)
def test_every_extension_has_a_stub_that_matches_it(source):
    name = ".".join(source.relative_to(ROOT).with_suffix("").parts)
    try:
        module = importlib.import_module(name)
    except ImportError:
        pytest.fail(f"{name} is not built: run `python setup.py build_ext --inplace`")
    tree = ast.parse(source.with_suffix(".pyi").read_text(encoding="utf-8"))
    stub = {
        node.name: node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))
    }
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }
    assert public - set(stub) == set(), "in the extension, not in the stub"
    for name, node in stub.items():
        value = getattr(module, name)
        if isinstance(node, ast.ClassDef):
            for item in node.body:
                if isinstance(item, ast.FunctionDef):
                    assert callable(getattr(value, item.name)), f"{name}.{item.name}"
                    compare_parameters(item, getattr(value, item.name))
                elif isinstance(item, ast.AnnAssign):
                    assert hasattr(value, item.target.id), f"{name}.{item.target.id}"
        else:
            compare_parameters(node, value)


def compare_parameters(stub, function):
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # compiled without a signature
    arguments = stub.args
    named = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    found = [p.name for p in signature.parameters.values() if p.kind not in (2, 4)]
    if "args" not in signature.parameters and "kwargs" not in signature.parameters:
        assert [n for n in found if n != "self"] == [n for n in named if n != "self"], stub.name


def unbuilt(code):
    """Run code as on a machine without a C++ compiler."""
    return run_python(code, missing=EXTENSION_NAMES, check=False)


def test_without_extensions_the_python_versions_work(tmp_path):
    (tmp_path / "text.txt").write_text("low low lower newest newest widest " * 5)
    run = unbuilt(f"""
import warnings; warnings.simplefilter("ignore")
from cs336_basics import TRAINERS, Tokenizer, train_bpe
for trainer in ("naive", "incremental", "heap"):
    vocab, merges = train_bpe({str(tmp_path / "text.txt")!r}, 270, [], trainer=trainer)
tokenizer = Tokenizer(vocab, merges)
print(tokenizer.decode(tokenizer.encode("lowest newer")))
TRAINERS["memoryview"]()
""")
    assert run.stdout.strip() == "lowest newer", run.stderr
    last = run.stderr.strip().splitlines()[-1]
    assert "UnavailableError: the 'memoryview' trainer is not built" in last
    assert "python setup.py build_ext --inplace" in last


def test_without_extensions_commands_work_or_print_the_build_command(tmp_path):
    (tmp_path / "text.txt").write_text("low low lower " * 5)
    compiled = ["train-bpe", "--input", str(tmp_path / "text.txt"), "--vocab-size", "260",
                "--output", str(tmp_path / "out"), "--trainer", "memoryview"]  # fmt: skip
    job = ["train", "--run-dir", str(tmp_path / "run"), *TRAINING, *MODEL]
    run = unbuilt(f"""
import warnings; warnings.simplefilter("ignore")
from cs336_basics.__main__ import main
from cs336_basics.training import trainer
trainer.plot_run = lambda run: None  # would import matplotlib
assert main({job!r}) == 0
raise SystemExit(main({compiled!r}))
""")
    assert run.returncode == 2, run.stderr
    assert len(run.stderr.strip().splitlines()) == 1
    assert "python setup.py build_ext --inplace" in run.stderr
    assert (tmp_path / "run" / "checkpoints" / "step_00000002.safetensors").is_file()
    assert (tmp_path / "run" / "tokenizer" / "tokenizer.json").is_file()
    assert "validation loss" in run.stdout
