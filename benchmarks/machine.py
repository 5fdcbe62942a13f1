"""Describe the machine, and run scripts and functions in new processes."""

import json
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (
    ROOT / "docs" / "benchmarks.md",
    ROOT / "docs" / "counting-and-encoding.md",
    ROOT / "docs" / "profiling.md",
    ROOT / "docs" / "stages.md",
)
"""Pages with generated blocks: tables, source code, and the worked example."""


def machine_info():
    from cs336_basics.execution.workers import resolve_num_workers

    info = {
        "cpu": cpu_model(),
        "cores": resolve_num_workers(None),
        "python": platform.python_version(),
    }
    for package in ("numpy", "torch", "regex", "tiktoken", "tokenizers"):
        try:
            info[package] = version(package)
        except PackageNotFoundError:
            info[package] = "not installed"
    return info


def machine_line():
    return ", ".join(f"{key} {value}" for key, value in machine_info().items())


def cpu_model(file="/proc/cpuinfo"):
    """Return the name of the CPU, and its family and model if the name contains no number."""
    try:
        lines = Path(file).read_text().splitlines()
    except OSError:
        lines = []
    pairs = (line.split(":", 1) for line in reversed(lines) if ":" in line)
    found = {key.strip(): value.strip() for key, value in pairs}
    name = found.get("model name")
    if not name:
        return platform.processor() or platform.machine()
    if any(character.isdigit() for character in name) or "cpu family" not in found:
        return name
    return f"{name} (family {found['cpu family']}, model {found['model']})"


def in_new_process(script, *words, **variables):
    """Run a benchmark script and return the JSON on the last line of its output.

    If the script fails, return a dict with the key "error": the last line of its standard error.
    """
    done = subprocess.run(
        [sys.executable, str(script), *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1", **variables},
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return {"error": lines[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def spawned(function, *arguments):
    """Call a function in a new process and return its result."""
    # Imported here, because `stages/trainer_run.py` measures the peak memory of a process.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()
