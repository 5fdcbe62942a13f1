"""The Makefile and the interpreter of an environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    os.name != "posix" or not shutil.which("make"), reason="needs make and a shell"
)
HANDED_ON = ("PYTHON", "MAKEFLAGS", "MAKEOVERRIDES")  # by `make test`
MAKEFILE = Path(__file__).parents[1] / "Makefile"


@pytest.mark.parametrize(
    ("version", "named", "status"),
    [("cpython 3 9", True, 2), ("cpython 3 9", False, 0), ("", True, 0)],
)
def test_another_interpreter_beside_an_environment_is_an_error(tmp_path, version, named, status):
    if version:
        (tmp_path / "bin").mkdir()
        python = tmp_path / "bin" / "python"
        python.write_text(f"#!/bin/sh\necho {version}\n")
        python.chmod(0o755)
    words = ["make", "--silent", "-f", MAKEFILE, "same-python", f"VENV={tmp_path}"]
    words += [f"PYTHON={sys.executable}"] if named else []
    environment = {name: value for name, value in os.environ.items() if name not in HANDED_ON}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == status, done.stderr
    assert (f"{tmp_path} was made with another Python" in done.stderr) == (status != 0)
