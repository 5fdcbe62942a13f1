"""Run the numerical tests as other machines would: `make portability`.

    python tests/portability.py [--seeds 20] [--only NAME]

An environment simulates a machine: its variables hold torch, oneDNN, MKL and the native code to
what an older CPU has, or change the number of threads or the compiler. The tests that are marked
`numerical` run in each over several seeds; those of the native code run once for each SIMD level
and compiler. Prints a table, and ends with status 1 if a test failed.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

# Tests that compare code which depends on the SIMD level or the compiler with readable Python.
NATIVE_TESTS = (
    "tests/test_simd_levels.py",
    "tests/pretokenization/test_scanner.py",
    "tests/pretokenization/test_native_counting.py",
    "tests/tokenizer/test_native_encoder.py",
    "tests/tokenizer/test_native_encoder_threads.py",
    "tests/tokenizer/test_decode.py",
    "tests/bpe/test_native.py",
)

TORCH_ENVIRONMENTS = {
    "as it is": {},
    "one thread": {"OMP_NUM_THREADS": "1"},
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


class Outcome(NamedTuple):
    """What one run of pytest reports."""

    tests: int
    failures: int
    seconds: float
    output: str


def run_tests(variables: dict[str, str], *arguments: str, root: Path = ROOT) -> Outcome:
    """Run pytest in a new process with these environment variables; count the tests."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.xml"
        options = ["-q", "-p", "no:cacheprovider", "--tb=short", f"--junit-xml={report}"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *arguments],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if not report.exists():
            raise SystemExit(f"pytest did not run (exit status {done.returncode}):\n{done.stdout}")
        suite = ElementTree.parse(report).getroot().find("testsuite")
    assert suite is not None
    failures = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    tests = int(suite.get("tests", 0)) - int(suite.get("skipped", 0))
    if done.returncode not in (0, 1) or (done.returncode == 1) != (failures > 0):
        raise SystemExit(f"pytest ended with exit status {done.returncode}:\n{done.stdout}")
    return Outcome(tests, failures, time.perf_counter() - start, done.stdout)


def build_with(compiler: str, directory: Path) -> Path:
    """Copy the project to `directory` and compile its extensions there with this C++ compiler."""
    for name in ("cs336_basics", "tests", "setup.py", "pyproject.toml", "README.md", "LICENSE"):
        source, target = ROOT / name, directory / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("*.so", "*.cpp.o", "__pycache__")
            shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copy2(source, target)
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=directory,
        env={**os.environ, "CC": compiler, "CXX": compiler},
        check=True,
    )
    return directory


def native_environments() -> dict[str, dict[str, str]]:
    """Return an environment for each SIMD level of the native code that this CPU has."""
    from cs336_basics.pretokenization import _scanner

    return {f"native: {level}": {"CS336_SIMD": level} for level in _scanner.simd_levels()}


def cpu_name() -> str:
    """Return the CPU's model name, as far as the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def main() -> int:
    """Run every environment, print a line for each, and the output of those that failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="seeds for each numerical test")
    parser.add_argument("--only", default="", metavar="TEXT", help="environments with this name")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    print(f"CPU: {cpu_name()}, {os.cpu_count()} cores; {platform.system()}, {platform.machine()}")
    print(f"{'environment':24} {'tests':>7} {'seeds':>6} {'failures':>9} {'seconds':>8}")
    failed: list[Outcome] = []

    def show(name: str, seeds: int, outcome: Outcome) -> None:
        tests, failures, seconds = outcome.tests, outcome.failures, outcome.seconds
        print(f"{name:24} {tests:7,} {seeds:6} {failures:9} {seconds:8.0f}", flush=True)
        if outcome.failures:
            failed.append(outcome)

    for name, variables in TORCH_ENVIRONMENTS.items():
        if arguments.only in name:
            numerical = ("tests", "-m", "numerical and not slow", "--seeds", str(arguments.seeds))
            show(name, arguments.seeds, run_tests(variables, *numerical))
    for name, variables in native_environments().items():
        if arguments.only in name:
            show(name, 1, run_tests(variables, *NATIVE_TESTS))
    clang = shutil.which("clang++")
    if arguments.only in "native: clang":
        if clang is None:
            print(
                "native: clang            not installed (Debian and Ubuntu: apt-get install clang)"
            )
            return 1
        with tempfile.TemporaryDirectory() as directory:
            root = build_with(clang, Path(directory))
            seeds = ("--seeds", str(arguments.seeds))
            show("native: clang", arguments.seeds, run_tests({}, *NATIVE_TESTS, *seeds, root=root))
    for outcome in failed:
        print(outcome.output)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
