"""Run the numerical tests in environments that simulate other machines: `make portability`.

    python tests/portability.py [SEEDS]

The variables in each environment limit torch, oneDNN, MKL or the native code to the instructions of
an older CPU, or change the number of threads. Tests with the marker `numerical` run with SEEDS (20)
seeds in each environment. Tests of the native code run for each SIMD level, and once more in a copy
that clang has compiled. The script prints the last line of each pytest run and exits with status 1
if a test fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Tests that compare reference code with code that depends on the SIMD level or the compiler.
NATIVE_TESTS = (
    "tests/test_simd_levels.py",
    "tests/pretokenization/test_scanner.py",
    "tests/pretokenization/counting",
    "tests/tokenizer/encoders",
    "tests/bpe/test_v5_native.py",
)

# By default, each run has one thread, because several runs share the cores.
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


def run_tests(name, variables, arguments, root=ROOT):
    """Run pytest in a new process, without xdist, so that the variables determine the threads."""
    options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--tb=short"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    summary = done.stdout.strip().splitlines()[-1]
    print(f"{name:24} {summary}", flush=True)
    return done.stdout if done.returncode else ""


def built_with_clang(directory):
    """Copy the project to `directory`, build its extensions there with clang, and return it."""
    from tests.test_distributions import copy_of_the_project

    clang = shutil.which("clang++")
    if clang is None:
        sys.exit("clang is missing; install it (Debian, Ubuntu: apt-get install clang)")
    project = copy_of_the_project(Path(directory, "project"))
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=project,
        env={**os.environ, "CC": clang, "CXX": clang},
        check=True,
    )
    return project


def main(seeds="20"):
    """Test every environment, and print the output of failed runs at the end."""
    sys.path.insert(0, str(ROOT))
    from benchmarks.machine import machine_line
    from cs336_basics.pretokenization import _scanner

    print(machine_line(), flush=True)
    numerical = ("tests", "-m", "numerical and not slow", "--seeds", seeds)
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = [
            pool.submit(run_tests, name, variables, numerical)
            for name, variables in TORCH_ENVIRONMENTS.items()
        ]
        runs += [
            pool.submit(run_tests, f"native: {level}", {"CS336_SIMD": level}, NATIVE_TESTS)
            for level in _scanner.simd_levels()
        ]
        project = built_with_clang(directory)
        more = (*NATIVE_TESTS, "--seeds", seeds)
        runs.append(pool.submit(run_tests, "native: clang", {}, more, project))
        failed = [run.result() for run in runs if run.result()]
    print(*failed, sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
