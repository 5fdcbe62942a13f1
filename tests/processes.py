"""New Python processes, and waiting for what other processes and threads do."""

from __future__ import annotations

import os
import subprocess
import sys
import time


def run_python(code, *arguments, check=True, cwd=None, **variables):
    """Run code in a new process with more environment variables, and return the process.

    Unless `check` is False, assert that the process succeeds.
    """
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
