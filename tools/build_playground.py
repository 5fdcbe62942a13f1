"""Build the playground that runs in the reader's browser, for `tools/build_site.py`.

The page is the one that the `playground` command serves, but its requests go to a web worker
instead of a server. The worker runs the library with Pyodide.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "cs336_basics" / "playground" / "page"
OWN = ROOT / "tools" / "site"
RUNTIME = (
    "pyodide.mjs",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "pyodide-lock.json",
    "python_stdlib.zip",
)
"""Files from the `pyodide` npm package that the browser loads."""


def build_playground(directory: Path, pyodide: Path) -> None:
    """Write the page, the runtime and the library to a new directory.

    Args:
        directory: New directory.
        pyodide: Directory with the files in RUNTIME; `make site` fetches them.

    Raises:
        FileNotFoundError: If a runtime file is missing.
        CalledProcessError: If pip cannot build the library's wheel.
    """
    shutil.copytree(PAGE, directory)
    for name in ("backend.js", "worker.js"):
        shutil.copy(OWN / name, directory)
    (directory / "pyodide").mkdir()
    for name in RUNTIME:
        shutil.copy(pyodide / name, directory / "pyodide")
    build_wheel(directory / "library.whl")


def build_wheel(path: Path) -> None:
    """Build the library's wheel, without the extensions."""
    with tempfile.TemporaryDirectory() as copy:  # the build leaves files in its directory
        for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, copy)
        ignored = shutil.ignore_patterns("*.so", "*.pyd", "*.cpp", "*.c", "__pycache__")
        shutil.copytree(ROOT / "cs336_basics", Path(copy, "cs336_basics"), ignore=ignored)
        options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", f"{copy}/wheel"]
        subprocess.run(
            [sys.executable, "-m", "pip", "wheel", *options, copy],
            env={**os.environ, "CS336_SKIP_EXTENSIONS": "1"},
            check=True,
        )
        (wheel,) = Path(copy, "wheel").iterdir()
        shutil.copy(wheel, path)
