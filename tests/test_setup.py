"""Test `python setup.py build_ext --inplace` with missing or old requirements."""

from __future__ import annotations

import os
import subprocess
import sys
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
