"""Rows whose cases are tests of the project that already are campaigns, or need other machines."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import pytest

from tests.campaign.foreign import python_of
from tests.campaign.promises import proving_tests
from tests.campaign.row import Case, row
from tests.portability import NATIVE_TESTS, Run, build_with, run_tests

ROOT = Path(__file__).parents[2]


def _run(case: Case, *arguments: str, root: Path = ROOT) -> int:
    """Run tests in a new process, slow ones too. Return the number of tests that passed."""
    found = case.folder / "results.xml"
    every = ("-m", "slow or not slow", "--junit-xml", str(found))
    done = run_tests(Run(case.value, {}, (*every, *arguments), root))
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


def _existing(name: str, title: str, share: float, cases: list[str]) -> None:
    """Add a row whose cases are arguments of pytest."""

    def check(case: Case) -> int:
        return _run(case, case.value)

    check.__name__, check.__doc__ = name, title
    row("tests", cases=lambda: cases, in_normal_run=False, seconds=1200, share=share)(check)


_existing(
    "sanitizers",
    "The contracts of the C++ code hold under the sanitizers for addresses, overflows and threads.",
    3,
    ["tests/native/test_contracts.py"],
)
_existing(
    "other_simd_levels",
    "AVX2, AVX-512 and Neon, emulated by SIMDe, give the results of the references.",
    8,
    ["tests/native/test_emulated_simd.py"],
)
_existing(
    "killed_commands",
    "Training runs, downloads, experiments and workers that are killed end in the same results.",
    10,
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
    6,
    [
        "tests/tokenizer/files/test_ray_encoding.py",
        "tests/counting/test_partial_counts.py",
        "tests/execution/test_ray_executor.py",
    ],
)
_existing(
    "signals",
    "Ctrl-C and SIGTERM end commands, threads and loops of C++ soon, without a traceback.",
    1,
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
    0.5,
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
    0.2,
    ["tests/playground/test_browser.py"],
)


def _files_with_slow_tests() -> list[str]:
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [
        file.relative_to(ROOT).as_posix()
        for file in files
        if "mark.slow" in file.read_text(encoding="utf-8")
    ]


@row("tests", cases=_files_with_slow_tests, in_normal_run=False, seconds=3600, share=20)
def slow_tests(case: Case) -> int:
    """The long tests pass (`make slow`)."""
    return _run(case, case.value, "-m", "slow")


def _proving_tests() -> list[str]:
    """Return the tests that prove a promise. All tests of a file are one case."""
    files: dict[str, list[str]] = {}
    for test in proving_tests():
        files.setdefault(test.partition("::")[0], []).append(test)
    return [" ".join(tests) for tests in files.values()]


@row("tests", cases=_proving_tests, in_normal_run=False, share=3)
def single_tests(case: Case) -> int:
    """The tests that prove a promise without random cases pass."""
    return _run(case, *case.value.split())


PLATFORMS = [
    "Python 3.10", "Python 3.11", "Python 3.12", "Python 3.13", "Python 3.14",
    "free-threaded Python", "i386", "big-endian", "AArch64", "AArch64, compiled",
]  # fmt: skip
DEBIAN_ARCHITECTURES = {"i386": "i386", "big-endian": "s390x", "AArch64": "arm64"}
FREE_THREADED = ["3.14t", "3.13t"]


@row("files and checks", cases=lambda: PLATFORMS, in_normal_run=False, seconds=1200, share=6)
def other_platforms(case: Case) -> int:
    """Other Pythons and CPUs run the library, most of them in Python, and write the same files."""
    name = case.value
    if name == "AArch64, compiled":
        python, variables = str(_python_and_extensions_for_aarch64(case.folder)), {}
        _check_quickly(python, variables)
    elif name in DEBIAN_ARCHITECTURES:
        python = str(python_of(DEBIAN_ARCHITECTURES[name], case.folder / "packages"))
        variables = {"CS336_SKIP_EXTENSIONS": "1"}
    else:
        python, variables = _environment(name, case.folder)
        _check_quickly(python, variables)
    _written_files(sys.executable, case.folder / "here", {"PYTHONPATH": str(ROOT)})
    case.notes[f"{name}: {_written_files(python, case.folder / 'there', variables)}"] += 1
    return 1 + _compare(case.folder / "here", case.folder / "there")


def _python_and_extensions_for_aarch64(folder: Path) -> Path:
    """Compile the extensions for AArch64. Return a command that runs Python with them."""
    compiler = "aarch64-linux-gnu-g++"
    if not shutil.which(compiler):
        pytest.skip(f"AArch64, compiled: needs {compiler} (Debian package g++-aarch64-linux-gnu)")
    project = folder / "compiled" / "project"
    python = python_of("arm64", folder / "packages", project)
    version = "python{}.{}".format(*sys.version_info)
    if not (folder / "packages" / "root" / "usr" / "bin" / version).exists():
        pytest.skip(f"AArch64, compiled: Debian's Python is not {version}, whose headers are here")
    build_with(compiler, folder / "compiled")
    for extension in [*project.rglob("*-x86_64-linux-gnu.so")]:
        extension.rename(extension.with_name(extension.name.replace("x86_64", "aarch64")))
    return python


def _python(name: str) -> str:
    """Return the interpreter of a platform."""
    versions = FREE_THREADED if "free" in name else [name.removeprefix("Python ")]
    for version in versions:
        number, t = version.removesuffix("t"), "t" * version.endswith("t")
        found = sorted(Path.home().glob(f".pyenv/versions/{number}.*/bin/python{version}"))
        found = [path for path in found if path.parents[1].name.endswith("t") == bool(t)]
        for python in [*map(str, found), shutil.which(f"python{version}")]:
            if python and not subprocess.run([python, "-c", ""], capture_output=True).returncode:
                return python
    pytest.skip(f"{name}: needs python{versions[0]}")


def _environment(name: str, folder: Path) -> tuple[str, dict[str, str]]:
    """Return the interpreter of a new environment with the dependencies, and its variables."""
    environment = folder / "environment"
    subprocess.run([_python(name), "-m", "venv", environment], check=True, capture_output=True)
    new = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    needed = ["numpy", "regex", "tqdm", "pyyaml", "loky", "requests"]
    install = [new, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *needed]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{name}: needs numpy and the other dependencies, which pip cannot install")
    # The extensions of the checkout are those of one version; the others run without them.
    is_own = name == f"Python {sys.version_info[0]}.{sys.version_info[1]}"
    return str(new), {"PYTHONPATH": str(ROOT), "CS336_SKIP_EXTENSIONS": "0" if is_own else "1"}


def _check_quickly(python: str, variables: dict[str, str]) -> None:
    done = subprocess.run(
        [python, ROOT / "tests" / "quick_check.py"], env={**os.environ, **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def _written_files(python: str, folder: Path, variables: dict[str, str]) -> str:
    """Write files with an interpreter. Return its byte order and bits."""
    folder.mkdir()
    words = [python, "-W", "ignore", "-m", "tests.campaign.written_files", "out"]
    done = subprocess.run(
        words, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _compare(here: Path, there: Path) -> int:
    """Compare the files of two platforms. Return their number."""
    from cs336_basics.counting import WordCounts

    names = sorted(str(path.relative_to(here)) for path in here.rglob("*") if path.is_file())
    assert names == sorted(str(p.relative_to(there)) for p in there.rglob("*") if p.is_file())
    for name in names:
        one, other = here / name, there / name
        if name.endswith(".npz"):  # versions of Python write different zip headers
            assert WordCounts.load(one) == WordCounts.load(other), name
        elif not name.endswith("training.json"):  # it records the version of `regex`
            assert one.read_bytes() == other.read_bytes(), name
    return len(names)


@functools.cache
def _built_with_clang() -> tuple[Any, Path]:
    """Build the project, once in a process."""
    folder = tempfile.TemporaryDirectory(prefix="campaign-")
    return folder, build_with("clang++", Path(folder.name))


@row("tests", cases=lambda: NATIVE_TESTS, in_normal_run=False, seconds=1800, share=3)
def other_compilers(case: Case) -> int:
    """The extensions that clang builds give the results of the references."""
    if not shutil.which("clang++"):
        pytest.skip("needs clang++")
    return _run(case, case.value, "-m", "not slow", root=_built_with_clang()[1])
