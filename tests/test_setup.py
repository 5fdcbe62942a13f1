"""Test `python setup.py build_ext --inplace` with missing or old requirements."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.test_distributions import copy_of_the_project

ROOT = Path(__file__).parents[1]
BUILD = ["setup.py", "--quiet", "build_ext", "--inplace"]
INSTALL = "run `pip install -c constraints.txt setuptools cython`."


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return copy_of_the_project(tmp_path_factory.mktemp("setup") / "project")


def run(project, *words, python=sys.executable, path=None, **variables):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    return subprocess.run(
        [str(python), *words],
        cwd=project,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def skip_without_setuptools():
    # Do not import setuptools: it cannot replace distutils if a test has imported distutils.
    if find_spec("setuptools") is None:
        pytest.skip("setuptools is not installed")


@pytest.mark.parametrize(
    ("module", "contents", "message"),
    [
        ("setuptools", "raise ImportError", "setuptools is missing"),
        ("Cython", "raise ImportError", "Cython is missing"),
        ("Cython", "__version__ = '3.0.12'", "Cython must be 3.1 or newer, got 3.0.12"),
    ],
)
def test_a_missing_requirement_is_reported_with_the_command_to_install_it(
    project, tmp_path, module, contents, message
):
    if module == "Cython":
        skip_without_setuptools()
    (tmp_path / module).mkdir()
    (tmp_path / module / "__init__.py").write_text(contents)
    (tmp_path / module / "Build.py").write_text("cythonize = None\n")
    done = run(project, *BUILD, path=tmp_path)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"cs336_basics: {message}")
    assert last.endswith(INSTALL)


def test_the_setuptools_of_a_new_environment_reads_the_project(project, tmp_path):
    if find_spec("ensurepip") is None:
        pytest.skip("this Python has no ensurepip")
    venv.create(tmp_path, with_pip=True)
    folder = "Scripts" if os.name == "nt" else "bin"
    python = next(path for path in (tmp_path / folder).iterdir() if path.stem == "python")
    # Python 3.11 and older include setuptools 65; newer versions do not include setuptools.
    has_setuptools = run(project, "-c", "import setuptools", python=python).returncode == 0
    words = ("setup.py", "--quiet", "egg_info", "--egg-base", str(tmp_path))
    done = run(project, *words, python=python, CS336_SKIP_EXTENSIONS="1")
    if not has_setuptools:
        assert done.returncode == 1
        assert done.stderr.strip().endswith(INSTALL)
        return
    assert done.returncode == 0, done.stderr
    (metadata,) = tmp_path.glob("*.egg-info/PKG-INFO")
    lines = metadata.read_text(encoding="utf-8").splitlines()
    assert "Name: cs336-basics" in lines or "Name: cs336_basics" in lines
    assert {"License: MIT", "License-Expression: MIT"} & set(lines)
    assert "License-File: LICENSE" in lines


@pytest.mark.parametrize(
    "words",
    [("pytest", "benchmarks"), ("benchmarks.stages.run",), ("benchmarks.stages.ablations",)],
)
def test_benchmarks_without_built_extensions_print_the_build_command(project, words):
    done = run(project, "-m", *words)
    assert done.returncode != 0
    (line,) = (done.stdout + done.stderr).split("\n\n")[0].splitlines()
    assert "python setup.py build_ext --inplace" in line
