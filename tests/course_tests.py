"""Run the course's own tests, unchanged, with our adapters: `make course-tests`.

    CS336_COURSE=DIR python tests/course_tests.py [PYTEST_OPTION ...]

DIR is a checkout of the course's repository. Without CS336_COURSE, git fetches REVISION. The
course's tests, their fixtures and tests/adapters.py are copied to a temporary directory, where
pytest runs. A test that needs a file missing from the checkout is skipped, and the reason names the
file. The exit status is pytest's, or 1 if the tests cannot be found.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REPOSITORY = "https://github.com/stanford-cs336/assignment1-basics"
REVISION = "a158843b20107949f1a8d7df1b05cd33b9166712"
"""Version 26.0.0 of the assignment, from 2026-04-07."""


def fetch(directory: Path) -> Path:
    """Fetch the pinned revision of the course's repository into `directory`."""
    for command in (
        ["init", "--quiet"],
        ["fetch", "--quiet", "--depth", "1", REPOSITORY, REVISION],
        ["checkout", "--quiet", "FETCH_HEAD"],
    ):
        environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
        done = subprocess.run(["git", *command], cwd=directory, env=environment, check=False)
        if done.returncode:
            sys.exit(f"cannot fetch {REPOSITORY}; set CS336_COURSE to a checkout of it")
    return directory


class MissingFiles:
    """Skips tests whose files are missing from the checkout."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        error = call.excinfo.value if call.excinfo else None
        if report.failed and isinstance(error, FileNotFoundError):
            report.outcome = "skipped"
            reason = f"not in the checkout: {Path(str(error.filename)).name}"
            report.longrepr = (str(item.path), item.reportinfo()[1] or 0, reason)
        return report


def main() -> int:
    """Find the course's tests and run them."""
    with tempfile.TemporaryDirectory() as checkout, tempfile.TemporaryDirectory() as directory:
        given = os.environ.get("CS336_COURSE")
        course = Path(given) if given else fetch(Path(checkout))
        if not (course / "tests").is_dir():
            sys.exit(f"{course}: the tests directory is missing")
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(course / "tests", Path(directory) / "tests", ignore=ignored)
        shutil.copy2(ROOT / "tests" / "adapters.py", Path(directory) / "tests")
        Path(directory, "pytest.ini").write_text("[pytest]\n")  # ignore settings in parent folders
        os.chdir(directory)
        sys.path[0] = str(ROOT)  # instead of the directory of this file
        os.environ["PYTHONPATH"] = str(ROOT)
        words = ["tests", "-rsf", "--durations=10", *sys.argv[1:]]
        status = pytest.main(words, plugins=[MissingFiles()])
        os.chdir(ROOT)
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
