"""New Python processes, and waiting for what other processes and threads do."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time

# Hides modules, as if they were not installed or not built.
HIDE = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if any(f"{{name}}.".startswith(f"{{hidden}}.") for hidden in {missing!r}):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
"""


def run_python(code, *arguments, missing=(), check=True, cwd=None, **variables):
    """Run code in a new process with more environment variables, and return the process.

    The modules in `missing` cannot be imported. Unless `check` is False, assert that the process
    succeeds.
    """
    if missing:
        code = HIDE.format(missing=tuple(missing)) + code
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=cwd, env={**os.environ, **variables}, capture_output=True, text=True, check=False,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0 or not check, done.stderr
    return done


def wait(condition, seconds=120, every=0.02):
    """Call `condition` at intervals until it returns a true value, and return this value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{condition} is still false after {seconds} s"
        time.sleep(every)
    return value


def measure_in_this_process(monkeypatch):
    """Let `estimate` take its steps here; test_measure.py tests its new process."""
    measure = importlib.import_module("cs336_basics.training.measure")
    monkeypatch.setattr(measure, "measure_steps", measure.take_steps)
