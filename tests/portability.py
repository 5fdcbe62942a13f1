"""Run the numerical tests in environments that simulate other machines: `make portability`.

    python tests/portability.py [--seeds 20] [--only NAME]

The variables in each environment limit torch, oneDNN, MKL or the native code to the instructions of
an older CPU, or change the number of threads or the compiler. Tests with the marker `numerical` run
with several seeds in each environment. Tests of the native code run for each SIMD level and
compiler. The script prints the last line of each pytest run and exits with status 1 if a test
fails.
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

# Tests that compare reference code with code that depends on the SIMD level or the compiler.
NATIVE_TESTS = (
    "tests/test_simd_levels.py",
    "tests/splitting/test_scanner.py",
    "tests/counting",
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
    """An environment: its name, its variables and the arguments for pytest."""

    name: str
    variables: dict[str, str]
    arguments: tuple[str, ...]
    root: Path = ROOT


def run_tests(run: Run) -> subprocess.CompletedProcess[str]:
    """Run pytest in a new process, without xdist, so that the variables set the threads."""
    options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--tb=short"]
    # The key of torch.compile's cache does not include ATEN_CPU_CAPABILITY. A run that is limited
    # to AVX2 could load AVX-512 code, which then returns NaN.
    with tempfile.TemporaryDirectory() as cache:
        variables = {"PYTHONPATH": str(run.root), "TORCHINDUCTOR_CACHE_DIR": cache}
        return subprocess.run(
            [sys.executable, "-m", "pytest", *options, *run.arguments],
            cwd=run.root,
            env={**os.environ, **variables, **run.variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )


def build_with(compiler: str, directory: Path) -> Path:
    """Copy the project to `directory` and build its extensions there with a C++ compiler."""
    from tests.test_distributions import copy_of_the_project

    project = copy_of_the_project(directory / "project")
    if shutil.which("ccache"):  # which finds the same files in another directory
        compiler = f"ccache {compiler}"
    variables = {"CCACHE_BASEDIR": str(project), "CCACHE_NOHASHDIR": "1"}
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=project,
        env={**os.environ, **variables, "CC": compiler, "CXX": compiler},
        check=True,
        stderr=subprocess.DEVNULL,  # warnings about generated code
    )
    return Path(project)


def native_environments() -> dict[str, dict[str, str]]:
    """Return an environment for each SIMD level that this CPU supports."""
    from cs336_basics.splitting import _scanner

    return {f"native: {level}": {"CS336_SIMD": level} for level in _scanner.simd_levels()}


def all_runs(seeds: int, only: str, directory: Path) -> list[Run]:
    """Return the runs whose names contain `only`. The clang build goes to `directory`."""
    numerical = ("tests", "-m", "numerical and not slow", "--seeds", str(seeds))
    # By default, each run has one thread, because several runs share the cores.
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
            raise SystemExit("clang is missing; install it (Debian, Ubuntu: apt-get install clang)")
        root = build_with(clang, directory)
        arguments = (*NATIVE_TESTS, "--seeds", str(seeds))
        runs.append(Run("native: clang", {}, arguments, root))
    return runs


def main() -> int:
    """Test every environment and print a summary line for each, then the output of failed runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="seeds for each numerical test")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="run environments whose names contain TEXT"
    )
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
