"""Settings for all tests: number of processes, seeds of numerical tests, float64 and fsync."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent
MAX_PROCESSES = 4  # each takes 1.1 to 1.7 GB with all libraries loaded
IN_ONE_PROCESS = (
    "usepdb", "trace", "stepwise", "collectonly", "showfixtures", "show_fixtures_per_test",
    "setupshow", "setuponly", "setupplan",
)  # fmt: skip
"""Options that need a terminal or a fixed order, or that run no tests."""
LONGEST_FILES = (
    "training/test_distributed.py",
    "tokenizer/files/test_ray_encoding.py",
    "counting/test_partial_counts.py",
    "test_documents.py",
    "formats/onnx/test_onnx_models.py",
    "experiments/test_runner.py",
    "test_distributions.py",
    "commands/test_training.py",
    "commands/test_cli.py",
    "native/test_contracts.py",
)
"""Files that take five seconds or longer, the longest first. pytest-xdist starts with them."""
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

# New processes import the package and the tests from here, even if the package is not installed.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(TESTS.parent), os.environ.get("PYTHONPATH")])
)
# By default, idle OpenMP threads spin. On a busy machine, they take cores from working threads, and
# tests of tiny models take eight times as long. torch reads this variable on import.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# If pytest-xdist runs several processes, share the cores among them.
_PROCESSES = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
if _PROCESSES > 1:
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, CORES // _PROCESSES)))

# No deadline, so that tests do not fail on a slow or busy machine.
# Every run of the tests draws other examples.
settings.register_profile("tests", deadline=None, max_examples=30)
settings.load_profile("tests")

# Importing the tests makes 600,000 objects that stay. Searching them for garbage takes a third of
# the time for importing them, and then a part of the time of every test.
gc.disable()  # until `pytest_runtestloop`

_FSYNC = os.fsync


def pytest_addoption(parser):
    parser.addoption(
        "--seeds",
        type=int,
        default=1,
        metavar="N",
        help="run every test marked `numerical` with N seeds instead of one",
    )


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads its options in the same hook
def pytest_cmdline_main(config):
    """Run the tests of whole folders with pytest-xdist and `--dist loadfile`.

    The tests in a file run in order in the same process, so that the file's fixtures are created
    only once. Everything else runs in a single process: individual files, other markers
    (`-m slow`), debugging, `-n 0` and `-p no:xdist`.
    """
    options = config.option
    if (
        config.pluginmanager.has_plugin("xdist")
        and not hasattr(config, "workerinput")  # this is not a worker process
        and options.numprocesses is None
        and options.dist == "no"
        and options.markexpr == "not slow"
        and options.capture != "no"  # -s
        and not any(getattr(options, name, False) for name in IN_ONE_PROCESS)
        and all(is_folder_of_tests(config, argument) for argument in config.args)
        and CORES > 1
    ):
        options.numprocesses = min(CORES, MAX_PROCESSES)
        options.dist = "loadfile"
        options.loadscopereorder = False  # the order of `pytest_collection_modifyitems`


@pytest.hookimpl(trylast=True)  # after other plugins have removed tests
def pytest_collection_modifyitems(config, items):
    """Let the processes start with the files that take longest, and then with the most tests.

    Otherwise, a file of one long test could be the last one, while the other cores have no work.
    """
    if hasattr(config, "workerinput"):
        num_tests = Counter(item.path for item in items)
        longest = {TESTS / name: place for place, name in enumerate(LONGEST_FILES)}
        order = {path: (longest.get(path, len(longest)), -num_tests[path]) for path in num_tests}
        items.sort(key=lambda item: order[item.path])


@pytest.hookimpl(tryfirst=True)  # the others run the tests
def pytest_runtestloop():
    gc.collect()
    gc.freeze()
    gc.enable()


def is_folder_of_tests(config, argument):
    path = (config.invocation_params.dir / argument).resolve()
    return path.is_dir() and (path == TESTS or TESTS in path.parents)


def pytest_report_header(config):
    number = getattr(config.option, "numprocesses", None)
    return f"the tests run in {number} processes; pass -n 0 to use one" if number else None


def pytest_generate_tests(metafunc):
    seeds = metafunc.config.getoption("--seeds")
    marker = metafunc.definition.get_closest_marker("numerical")
    if seeds == 1 or marker is None or not marker.kwargs.get("seeds", True):
        return
    # Hypothesis draws different values in each run anyway.
    if not getattr(metafunc.function, "is_hypothesis_test", False):
        metafunc.parametrize("seed", range(seeds), indirect=True, ids=lambda n: f"seed{n}")


@pytest.fixture(autouse=True)
def seed(request):
    """The test's seed: 0, or each of 0, ..., N - 1 for numerical tests with `--seeds N`.

    The fixture seeds torch's global generator. Tests with their own generator use its value.
    """
    number = getattr(request, "param", 0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(number)
    return number


@pytest.fixture
def float64():
    """Set torch's default dtype to float64, so that two correct computations of a value agree.

    Kernels for different CPUs add numbers in different orders. In float32, the order affects the
    sixth or seventh digit, and more digits after a cancellation. In float64, the effect is far
    below the tolerance of `torch.testing.assert_close`, 1e-7. The error of a wrong formula is far
    above the tolerance.
    """
    from tests.numerics import default_dtype

    with default_dtype("float64"):
        yield


def _checked_handle(handle):
    """Raise OSError if a file is not open, as fsync does."""
    os.fstat(handle)


@pytest.fixture(scope="session", autouse=True)
def no_fsync():
    """Replace fsync, which matters only after a power failure.

    Saving a tokenizer or checkpoint calls fsync up to ten times, and each call takes several
    milliseconds. Processes that a test starts use the real fsync.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", _checked_handle)
        yield


@pytest.fixture
def fsync(monkeypatch):
    """Use the real fsync in this test."""
    monkeypatch.setattr(os, "fsync", _FSYNC)


@pytest.fixture(scope="module")
def local_ray():
    """Start Ray with two CPUs on this machine, connect to it, and return the module."""
    ray = pytest.importorskip("ray")
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        yield ray
    finally:
        ray.shutdown()
