"""Run the numerical tests as other machines would: `make portability`.

    python tests/portability.py [--seeds 20] [--only NAME]

An environment simulates a machine: its variables hold torch, oneDNN, MKL and the native code to
what an older CPU has, or change the number of threads or the compiler. The tests that are marked
`numerical` run in each over several seeds; those of the native code run once for each SIMD level
and compiler. Prints pytest's last line for each, and ends with status 1 if a test failed.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

# Tests that compare code which depends on the SIMD level or the compiler with readable Python.
NATIVE_TESTS = (
    "tests/test_simd_levels.py",
    "tests/pretokenization/test_scanner.py",
    "tests/pretokenization/counting",
    "tests/tokenizer/encoders",
    "tests/bpe/test_v5_native.py",
)

TORCH_ENVIRONMENTS = {
    "one thread": {},
    "two threads": {"OMP_NUM_THREADS": "2"},
    "torch: no SIMD": {"ATEN_CPU_CAPABILITY": "default"},
    "torch: AVX2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "oneDNN, MKL: AVX2": {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "MKL_CBWR": "AVX2",
    },
    "oneDNN, MKL: SSE4.1": {
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "MKL_CBWR": "COMPATIBLE",
    },
}


class Run(NamedTuple):
    """A line of the table: the name, the environment's variables, and the arguments of pytest."""

    name: str
    variables: dict[str, str]
    arguments: tuple[str, ...]
    root: Path = ROOT


def run_tests(run: Run) -> subprocess.CompletedProcess[str]:
    """Run pytest in a new process, without xdist: the variables say how many threads it has."""
    options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--tb=short"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *run.arguments],
        cwd=run.root,
        env={**os.environ, "PYTHONPATH": str(run.root), **run.variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def build_with(compiler: str, directory: Path) -> Path:
    """Copy the project to `directory` and compile its extensions there with this C++ compiler."""
    from tests.test_distributions import copy_of_the_project

    project = copy_of_the_project(directory / "project")
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=project,
        env={**os.environ, "CC": compiler, "CXX": compiler},
        check=True,
    )
    return Path(project)


def native_environments() -> dict[str, dict[str, str]]:
    """Return an environment for each SIMD level of the native code that this CPU has."""
    from cs336_basics.pretokenization import _scanner

    return {f"native: {level}": {"CS336_SIMD": level} for level in _scanner.simd_levels()}


def all_runs(seeds: int, only: str, directory: Path) -> list[Run]:
    """Return the runs whose names contain `only`; the clang build goes to `directory`."""
    numerical = ("tests", "-m", "numerical and not slow", "--seeds", str(seeds))
    # Each run has one thread, unless it says otherwise, so that several runs share the cores.
    runs = [
        Run(name, {"OMP_NUM_THREADS": "1", **variables}, numerical)
        for name, variables in TORCH_ENVIRONMENTS.items()
    ]
    runs += [
        Run(name, variables, NATIVE_TESTS) for name, variables in native_environments().items()
    ]
    runs = [run for run in runs if only in run.name]
    if only in "native: clang":
        clang = shutil.which("clang++")
        if clang is None:
            raise SystemExit("clang is not installed (Debian and Ubuntu: apt-get install clang)")
        root = build_with(clang, directory)
        arguments = (*NATIVE_TESTS, "--seeds", str(seeds))
        runs.append(Run("native: clang", {}, arguments, root))
    return runs


def main() -> int:
    """Run every environment, print a line for each, and the output of those that failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="seeds for each numerical test")
    parser.add_argument("--only", default="", metavar="TEXT", help="environments with this name")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from benchmarks.machine import machine_line

    print(f"{machine_line()}; {platform.system()}", flush=True)
    failed = []
    with (
        tempfile.TemporaryDirectory() as directory,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        runs = all_runs(arguments.seeds, arguments.only, Path(directory))
        for run, done in zip(runs, pool.map(run_tests, runs), strict=True):
            summary = done.stdout.strip().rpartition("\n")[2]
            print(f"{run.name:24} {summary}", flush=True)
            if done.returncode:
                failed.append(done.stdout)
    for output in failed:
        print(output)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
