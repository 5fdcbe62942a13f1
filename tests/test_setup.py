"""Test `python setup.py build_ext --inplace` with missing or old requirements."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest

from tests.test_distributions import copy_of_the_project, run

BUILD = ["setup.py", "--quiet", "build_ext", "--inplace"]
INSTALL = "run `pip install -c constraints.txt setuptools cython`."


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return copy_of_the_project(tmp_path_factory.mktemp("setup") / "project")


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
    if module == "Cython" and find_spec("setuptools") is None:
        pytest.skip("setuptools is not installed")
    (tmp_path / module).mkdir()
    (tmp_path / module / "__init__.py").write_text(contents)
    (tmp_path / module / "Build.py").write_text("cythonize = None\n")
    done = run([sys.executable, *BUILD], project, PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"cs336_basics: {message}")
    assert last.endswith(INSTALL)
