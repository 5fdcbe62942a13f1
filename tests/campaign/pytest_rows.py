"""Rows whose cases are tests of the project that already are campaigns, or need other machines."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

import pytest

from tests.campaign.promises import proving_tests
from tests.campaign.row import Case, row
from tests.portability import Run, run_tests

ROOT = Path(__file__).parents[2]


def _run(case: Case, *arguments: str, **variables: str) -> int:
    """Run tests in a new process, slow ones too. Return the number of tests that passed."""
    found = case.folder / "results.xml"
    every = ("-m", "slow or not slow", "--junit-xml", str(found))
    done = run_tests(Run(case.value, variables, (*every, *arguments)))
    assert done.returncode in (0, 5), done.stdout[-4000:]
    passed = 0
    for test in xml.etree.ElementTree.parse(found).iter("testcase"):
        skipped = test.find("skipped")
        if skipped is None:
            passed += 1
        else:
            case.notes[f"skipped: {skipped.get('message')}"] += 1
    if not passed:
        pytest.skip("; ".join(case.notes) or "there are no tests of this name")
    return passed


def _existing(name: str, title: str, cases: list[str]) -> None:
    """Add a row whose cases are arguments of pytest."""

    def check(case: Case) -> int:
        return _run(case, case.value)

    check.__name__, check.__doc__ = name, title
    row("tests", cases=lambda: cases, in_normal_run=False, seconds=1200, share=2)(check)


_existing(
    "sanitizers",
    "The contracts of the C++ code hold under the sanitizers for addresses, overflows and threads.",
    ["tests/native/test_contracts.py"],
)
_existing(
    "other_simd_levels",
    "AVX2, AVX-512 and Neon, emulated by SIMDe, give the results of the references.",
    ["tests/native/test_emulated_simd.py"],
)
_existing(
    "killed_commands",
    "Training runs, downloads, experiments and workers that are killed end in the same results.",
    [
        "tests/commands/test_training.py::test_many_kills_do_not_change_the_run",
        "tests/data/datasets/test_fetch.py::test_a_killed_download_is_continued",
        "tests/experiments/test_runner.py::test_a_killed_command_continues_to_the_same_report",
        "tests/training/test_distributed.py::"
        "test_processes_killed_at_any_time_leave_a_run_that_continues_in_one",
        "tests/execution/test_executors.py::test_workers_end_when_their_parent_is_killed",
        "tests/checkpoints/test_run_dir.py::"
        "test_the_temporary_file_of_a_killed_safetensors_is_removed",
    ],
)
_existing(
    "ray",
    "Ray gives the results of one process, also when workers and machines are killed.",
    [
        "tests/tokenizer/files/test_ray_encoding.py",
        "tests/counting/test_partial_counts.py",
        "tests/execution/test_ray_executor.py",
    ],
)
_existing(
    "signals",
    "Ctrl-C and SIGTERM end commands, threads and loops of C++ soon, without a traceback.",
    [
        "tests/commands/test_cli.py::test_ctrl_c_sets_status_130_and_prints_one_line",
        "tests/commands/test_training.py::"
        "test_a_signal_saves_a_checkpoint_and_prints_the_command_to_resume",
        "tests/training/test_session.py",
        "tests/counting/test_counting.py::test_exception_of_a_signal_handler_ends_the_threads",
        "tests/tokenizer/test_batches.py::test_signals_are_handled_between_the_texts_of_a_batch",
        "tests/bpe/test_v5_native.py::test_an_exception_in_a_signal_handler_ends_the_merge_loop",
        "tests/tokenizer/encoders/test_native_encoder.py::"
        "test_the_error_reports_that_no_thread_can_be_started",
    ],
)
_existing(
    "memory",
    "Memory does not grow with the size of files, streams and documents.",
    [
        "tests/tokenizer/streaming/test_incremental_encoder.py::"
        "test_memory_does_not_grow_with_the_text",
        "tests/counting/test_counting.py::test_memory_does_not_grow_with_the_size_of_the_file",
        "tests/training/test_data.py::test_memory_does_not_grow_with_the_dataset",
        "tests/data/test_documents.py::test_a_huge_document_is_cut_and_needs_little_memory",
        "tests/text/test_storage.py::test_bombs_are_rejected_before_they_are_decompressed",
    ],
)
_existing(
    "browser",
    "The playground works in a browser, with hostile links and texts.",
    ["tests/playground/test_browser.py"],
)


def _files_with_slow_tests() -> list[str]:
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [
        file.relative_to(ROOT).as_posix()
        for file in files
        if "mark.slow" in file.read_text(encoding="utf-8")
    ]


@row("tests", cases=_files_with_slow_tests, in_normal_run=False, seconds=3600, share=6)
def slow_tests(case: Case) -> int:
    """The long tests pass (`make slow`)."""
    return _run(case, case.value, "-m", "slow")


def _proving_tests() -> list[str]:
    """Return the tests that prove a promise, those of a file in one case."""
    files: dict[str, list[str]] = {}
    for test in proving_tests():
        files.setdefault(test.partition("::")[0], []).append(test)
    return [" ".join(tests) for tests in files.values()]


@row("tests", cases=_proving_tests, in_normal_run=False, share=4)
def single_tests(case: Case) -> int:
    """The tests that prove a promise without random cases pass."""
    return _run(case, *case.value.split())


PLATFORMS = {
    **dict.fromkeys(("Python 3.10", "Python 3.11", "Python 3.12", "Python 3.13", "Python 3.14")),
    "free-threaded Python": "nothing finds or builds one here; the workflow builds wheels for it",
    "i386": "nothing runs Debian's packages under qemu-user yet",
    "big-endian": "nothing runs Debian's packages under qemu-user yet",
}
"""Platforms, and why those that no case can check are skipped."""


@row("platforms", cases=lambda: list(PLATFORMS), in_normal_run=False, seconds=900)
def other_platforms(case: Case) -> int:
    """Other versions of Python run the pure-Python library as `tests/quick_check.py` expects."""
    if reason := PLATFORMS[case.value]:
        pytest.skip(f"{case.value}: {reason}")
    version = case.value.removeprefix("Python ")
    found = [str(p) for p in Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
    python = next(iter(found), None) or shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "-c", ""], capture_output=True).returncode:
        pytest.skip(f"{case.value}: is not installed")
    environment = case.folder / "environment"
    subprocess.run([python, "-m", "venv", environment], check=True, capture_output=True)
    new = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    needed = ["numpy", "regex", "tqdm", "pyyaml", "loky", "requests"]
    install = [new, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *needed]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{case.value}: pip cannot install the dependencies")
    # The extensions of the checkout are those of one version; the others run without them.
    is_own = version == ".".join(map(str, sys.version_info[:2]))
    variables = {"PYTHONPATH": str(ROOT), "CS336_SKIP_EXTENSIONS": "0" if is_own else "1"}
    done = subprocess.run(
        [new, ROOT / "tests" / "quick_check.py"], env={**os.environ, **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    case.notes[case.value] += 1
    return 1
