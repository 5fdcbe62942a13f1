"""The docstrings of everything stable name their arguments, and their examples run.

An example may use `stories.txt`, a tokenizer in `tokenizers/stories` and a run in `runs/stories`.
"""

import ast
import doctest
import inspect
import itertools
import re
import shutil
import textwrap

import pytest

from cs336_basics import TRAINERS
from cs336_basics._support.validation import Checked, fields_of
from tests.documents.blocks import ROOT
from tools import api_page, interface

FILES = max((ROOT / "tests" / "files").iterdir())  # of any released version
PUBLIC = api_page.public_names()
CALLABLES = {
    name: value
    for name, value in interface.stable_names()
    if callable(value) and PUBLIC[id(value)] == name
}
# Classes that a stable function returns or that TRAINERS contains, so that its example shows them.
SHOWN_BY_OTHERS = {
    *("Agreement", "LoadedRun", "Pruned", "TextToken", "TextTokens"),
    *(trainer.__name__ for trainer in TRAINERS.values()),
}
SLOW = {"cs336_basics.formats.check_model"}  # imports transformers
WITH_EXAMPLE = [name for name, value in CALLABLES.items() if value.__name__ not in SHOWN_BY_OTHERS]


def own_docstring(value):
    """Return the docstring of a function, or the docstrings of a class and its fields."""
    if not isinstance(value, type):
        return inspect.getdoc(value) or ""
    text = f"{value.__doc__ or ''}\n{value.__init__.__doc__ or ''}"
    if issubclass(value, Checked):
        return text + " ".join(name for name, option in fields_of(value) if option.help)
    if issubclass(value, tuple):
        return text + " ".join(described_fields(value))
    return text


def described_fields(cls):
    """Yield the fields of a NamedTuple that a string below them describes."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    for field, below in itertools.pairwise(node.body):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
            yield field.target.id


def names_of(function):
    parameters = inspect.signature(function).parameters
    return [name for name in parameters if name not in ("self", "cls", "args", "kwargs")]


def referred_to(text, owner):
    """Yield what a docstring refers to, such as "See `encode_file`"."""
    places = [owner, *CALLABLES.values(), *map(inspect.getmodule, CALLABLES.values())]
    for names in re.findall(r"[Ss]ee ((?:`[\w.]+`(?:, | and )?)+)", text):
        for name in re.findall(r"`([\w.]+)`", names):
            first, _, last = name.rpartition(".")
            for place in places:
                if not first or getattr(place, "__name__", "") == first:
                    yield getattr(place, last, None)


def missing_arguments(function, owner=None):
    """Return the arguments that neither the docstring nor one that it refers to names."""
    text = own_docstring(function)
    missing = [name for name in names_of(function) if not re.search(rf"\b{name}\b", text)]
    if missing:
        others = "\n".join(map(own_docstring, referred_to(text, owner)))
        missing = [name for name in missing if not re.search(rf"\b{name}\b", others)]
    return missing


@pytest.mark.parametrize("name", CALLABLES)
def test_docstrings_name_the_arguments(name):
    value = CALLABLES[name]
    assert own_docstring(value).strip()
    if not isinstance(value, type) or not vars(value).keys().isdisjoint({"__init__", "__new__"}):
        assert missing_arguments(value) == []
    if isinstance(value, type):
        for member, function in interface.stable_members(value):
            assert own_docstring(function).strip(), member
            if not isinstance(inspect.getattr_static(value, member), property):
                assert missing_arguments(function, value) == [], member


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A directory with the files that the examples use."""
    path = tmp_path_factory.mktemp("examples")
    shutil.copy(FILES / "text.txt", path / "stories.txt")
    shutil.copytree(FILES / "tokenizer", path / "tokenizers" / "stories")
    shutil.copytree(FILES / "run", path / "runs" / "stories")
    return path


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in WITH_EXAMPLE],
)
def test_examples_run(name, directory, monkeypatch):
    monkeypatch.chdir(directory)
    value = CALLABLES[name]
    text = inspect.cleandoc(value.__doc__)
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    assert example.examples, "has no example"
    options = doctest.IGNORE_EXCEPTION_DETAIL | doctest.ELLIPSIS
    runner = doctest.DocTestRunner(verbose=False, optionflags=options)
    failures = []
    assert runner.run(example, out=failures.append).failed == 0, "".join(failures)
