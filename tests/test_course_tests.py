"""`make course-tests`, with a small course of our own instead of the real one."""

from __future__ import annotations

import subprocess

import pytest

from tests import course_tests

TESTS = {
    "__init__.py": "",
    "adapters.py": "def run_silu(x):\n    raise NotImplementedError\n",
    "conftest.py": (
        "import pathlib, pytest\n"
        "@pytest.fixture\n"
        "def expected():\n"
        "    return float(pathlib.Path('tests/fixtures/silu.txt').read_text())\n"
    ),
    "fixtures/silu.txt": "0.7310586",
    "test_model.py": (
        "import torch\n"
        "from .adapters import run_silu\n"
        "def test_silu(expected):\n"
        "    assert abs(run_silu(torch.tensor(1.0)).item() - expected) < 1e-6\n"
        "def test_wrong():\n"
        "    assert 2.0 == 3.0\n"
    ),
    "test_tokenizer.py": (
        "import pytest\n"
        "from .adapters import get_tokenizer\n"
        "def test_bytes():\n"
        "    tokenizer = get_tokenizer({i: bytes([i]) for i in range(256)}, [])\n"
        "    assert tokenizer.encode('ab') == [97, 98]\n"
        "@pytest.mark.xfail(reason='needs more memory')\n"
        "def test_memory():\n"
        "    assert False\n"
    ),
}


@pytest.fixture
def course(tmp_path, monkeypatch):
    directory = tmp_path / "course"
    for name, text in TESTS.items():
        path = directory / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("CS336_COURSE", str(directory))
    return directory


def contents(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_the_tests_of_the_course_run_with_our_adapters(course, capsys):
    before = contents(course)
    assert course_tests.main() == 1
    lines = capsys.readouterr().out.splitlines()
    outcomes = {line.split()[3]: line.split()[0] for line in lines if "::" in line}
    assert outcomes == {
        "test_model.py::test_silu": "passed",
        "test_model.py::test_wrong": "failed",
        "test_tokenizer.py::test_bytes": "passed",
        "test_tokenizer.py::test_memory": "skipped",
    }
    (line,) = (line for line in lines if "test_wrong" in line)
    assert line.endswith("(assert 2.0 == 3.0)")
    (line,) = (line for line in lines if line.startswith("test_tokenizer.py "))
    assert line.split()[1:4] == ["1", "0", "1"]
    assert line.endswith("(a public solution: 1,697.00 s)")
    assert contents(course) == before


def error_line(capsys):
    """The one line that a command without tests to run prints."""
    assert course_tests.main() == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line.removeprefix("course-tests: error: ")


def test_a_course_for_another_python_is_one_line(course, capsys):
    (course / "pyproject.toml").write_text('[project]\nrequires-python = ">=3.99"\n')
    assert error_line(capsys).startswith("the course's tests need Python >=3.99, and this is 3.")


def test_a_directory_without_tests_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CS336_COURSE", str(tmp_path))
    assert error_line(capsys) == f"CS336_COURSE is {tmp_path}: it has no directory tests"


def test_tests_that_cannot_be_imported_are_an_error(course, capsys):
    (course / "tests" / "conftest.py").write_text("import no_such_module\n")
    assert course_tests.main() == 2
    assert "no_such_module" in capsys.readouterr().err


def test_without_a_network_the_command_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("CS336_COURSE", raising=False)
    monkeypatch.setattr(course_tests, "REPOSITORY", str(tmp_path / "nothing"))
    line = error_line(capsys)
    assert line.startswith(f"{tmp_path}/nothing cannot be fetched (")
    assert line.endswith("set CS336_COURSE to a checkout")


def test_the_pinned_revision_is_fetched_with_git(course, tmp_path, monkeypatch):
    """A repository on this machine stands in for the course's."""
    git = ["git", "-C", str(course), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "tests"]):
        subprocess.run([*git, *command], check=True)
    head = subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    monkeypatch.delenv("CS336_COURSE")
    monkeypatch.setattr(course_tests, "REPOSITORY", str(course))
    monkeypatch.setattr(course_tests, "REVISION", head)
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    assert course_tests.find_course(checkout) == checkout
    assert (checkout / "tests" / "test_model.py").read_text() == TESTS["test_model.py"]
