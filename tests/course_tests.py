"""Run the course's own tests, unchanged, with our adapters: `make course-tests`.

    CS336_COURSE=DIR python tests/course_tests.py

DIR is a checkout of the course's repository. Without CS336_COURSE, the revision below is fetched
with git. The course's tests and fixtures are copied to a temporary directory, tests/adapters.py is
put beside them, and pytest runs there. Prints the outcome of every test and the seconds of each
file.

Exit statuses: 0 all passed; 1 a test failed; 2 there are no tests to run, or not for this Python.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]

REPOSITORY = "https://github.com/stanford-cs336/assignment1-basics"
REVISION = "a158843b20107949f1a8d7df1b05cd33b9166712"
"""Version 26.0.0 of the assignment, of 2026-04-07."""

# The seconds of a public solution in Python, for comparison.
OTHER_SECONDS = {"test_train_bpe.py": 3.04, "test_tokenizer.py": 1697.0}


class CourseError(Exception):
    """The course's tests cannot be run here; the message says why."""


class Result(NamedTuple):
    """The outcome of one of the course's tests."""

    file: str
    name: str
    outcome: str
    """passed, failed or skipped; a test that the course expects to fail counts as skipped."""
    seconds: float
    message: str


def find_course(directory: Path) -> Path:
    """Return a checkout of the course: CS336_COURSE, or else one fetched into `directory`.

    Raises:
        CourseError: there is none.
    """
    given = os.environ.get("CS336_COURSE")
    if given:
        if not (Path(given) / "tests").is_dir():
            raise CourseError(f"CS336_COURSE is {given}: it has no directory tests")
        return Path(given)
    git = ["git", "-C", str(directory)]
    for command in (
        ["init", "--quiet"],
        ["fetch", "--quiet", "--depth", "1", REPOSITORY, REVISION],
        ["checkout", "--quiet", "FETCH_HEAD"],
    ):
        try:
            subprocess.run(
                [*git, *command],
                check=True,
                capture_output=True,
                text=True,
                timeout=300,
                env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
            )
        except (OSError, subprocess.SubprocessError) as error:
            lines = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
            raise CourseError(
                f"{REPOSITORY} cannot be fetched ({lines[-1]}): set CS336_COURSE to a checkout"
            ) from error
    return directory


def check_python(course: Path) -> None:
    """Check that this Python can run the course's tests.

    Raises:
        CourseError: their pyproject.toml demands another version.
    """
    project = course / "pyproject.toml"
    text = project.read_text(encoding="utf-8") if project.is_file() else ""
    required = re.search(r'^requires-python\s*=\s*"([^"]*)"', text, flags=re.MULTILINE)
    version = ".".join(map(str, sys.version_info[:3]))
    if required and not SpecifierSet(required[1]).contains(version):
        raise CourseError(
            f"the course's tests need Python {required[1]}, and this is {version}: choose another "
            "with make PYTHON=... VENV=... course-tests"
        )


def copy_tests(course: Path, directory: Path) -> None:
    """Copy the course's tests to `directory`, with our adapters instead of the course's."""
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", ".git")
    shutil.copytree(course / "tests", directory / "tests", ignore=ignored)
    shutil.copy2(ROOT / "tests" / "adapters.py", directory / "tests")
    (directory / "pytest.ini").write_text("[pytest]\n")  # none from the directories above


def run_tests(directory: Path) -> list[Result]:
    """Run the tests that `copy_tests` has copied.

    Raises:
        CourseError: pytest could not run them.
    """
    report = directory / "report.xml"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests", "-q", "--tb=short", f"--junit-xml={report}"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1) or not report.exists():
        raise CourseError(f"pytest ended with exit status {done.returncode}:\n{done.stdout}")
    return [read_result(case) for case in ElementTree.parse(report).iter("testcase")]


def read_result(case: ElementTree.Element) -> Result:
    """Return the result that a <testcase> of the report describes."""
    outcome, message = "passed", ""
    for tag, name in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        found = case.find(tag)
        if found is not None:
            outcome, message = name, found.get("message", "").strip().partition("\n")[0]
    file = case.get("classname", "").split(".")[-1] + ".py"
    seconds = float(case.get("time", 0))
    return Result(file, case.get("name", ""), outcome, seconds, message)


def show(results: list[Result]) -> None:
    """Print a line for each test, and then one for each file."""
    for result in results:
        note = f"  ({result.message})" if result.message else ""
        name = f"{result.file}::{result.name}"
        print(f"{result.outcome:8}{result.seconds:8.2f} s  {name}{note}")
    print(f"\n{'file':24}{'passed':>8}{'failed':>8}{'skipped':>8}{'seconds':>10}")
    for file in sorted({result.file for result in results}):
        own = [result for result in results if result.file == file]
        counts = [
            sum(result.outcome == outcome for result in own)
            for outcome in ("passed", "failed", "skipped")
        ]
        seconds = sum(result.seconds for result in own)
        other = OTHER_SECONDS.get(file)
        note = f"  (a public solution: {other:,.2f} s)" if other else ""
        cells = "".join(f"{count:8}" for count in counts)
        print(f"{file:24}{cells}{seconds:10.2f}{note}")


def main() -> int:
    """Find the course's tests, run them, and print what they found."""
    with tempfile.TemporaryDirectory() as checkout, tempfile.TemporaryDirectory() as directory:
        try:
            course = find_course(Path(checkout))
            check_python(course)
            copy_tests(course, Path(directory))
            results = run_tests(Path(directory))
        except CourseError as error:
            print(f"course-tests: error: {error}", file=sys.stderr)
            return 2
    show(results)
    return 1 if any(result.outcome == "failed" for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
