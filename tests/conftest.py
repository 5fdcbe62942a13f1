"""For all tests: how many processes run them, the seed of numerical tests, float64, fsync."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent
MAX_PROCESSES = 4  # with all libraries loaded, each takes 1.1 to 1.7 GB
IN_ONE_PROCESS = (
    "usepdb", "trace", "stepwise", "collectonly", "showfixtures", "show_fixtures_per_test",
    "setupshow", "setuponly", "setupplan",
)  # fmt: skip
"""Options that need a terminal, an order, or no tests at all."""
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

# OpenMP's threads spin while they wait for work. On a busy machine that takes the cores from the
# threads that have work, and tests of tiny models take eight times as long. Read when torch loads.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# Where several processes run tests, each has its share of the cores (the variable is xdist's).
_PROCESSES = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
if _PROCESSES > 1:
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, CORES // _PROCESSES)))

# A slow or busy machine is not a failure: no example has a time limit.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

_FSYNC = os.fsync


def pytest_addoption(parser):
    parser.addoption(
        "--seeds",
        type=int,
        default=1,
        metavar="N",
        help="run every test that is marked `numerical` with N seeds instead of one",
    )


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads its options in the same hook
def pytest_cmdline_main(config):
    """Run the tests of whole folders as `-n CORES --dist loadfile` of pytest-xdist does.

    The tests of a file run in one process and in their order, so that its fixtures are made once.
    Everything else runs in one process: single files, other markers (`-m slow`), debugging, `-n 0`
    and `-p no:xdist`.
    """
    options = config.option
    if (
        config.pluginmanager.has_plugin("xdist")
        and not hasattr(config, "workerinput")  # this is not one of the processes
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


def is_folder_of_tests(config, argument):
    path = (config.invocation_params.dir / argument).resolve()
    return path.is_dir() and (path == TESTS or TESTS in path.parents)


def pytest_report_header(config):
    number = getattr(config.option, "numprocesses", None)
    return f"the tests run in {number} processes (-n 0: in one)" if number else None


def pytest_generate_tests(metafunc):
    seeds = metafunc.config.getoption("--seeds")
    marker = metafunc.definition.get_closest_marker("numerical")
    if seeds == 1 or marker is None or not marker.kwargs.get("seeds", True):
        return
    # Hypothesis draws other values in each run anyway.
    if not getattr(metafunc.function, "is_hypothesis_test", False):
        metafunc.parametrize("seed", range(seeds), indirect=True, ids=lambda n: f"seed{n}")


@pytest.fixture(autouse=True)
def seed(request):
    """The number of the seed: 0, or each of 0 ... N - 1 for numerical tests under `--seeds N`.

    torch's global generator starts from it. A test with its own generator uses the number.
    """
    number = getattr(request, "param", 0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(number)
    return number


@pytest.fixture
def float64():
    """Make float64 torch's default dtype, so that two right ways to compute a value agree.

    In float32 the order of a sum, which a kernel for another CPU changes, shows in the sixth or
    seventh digit, and more after a cancellation. In float64 it stays many digits below the 1e-7
    that `torch.testing.assert_close` allows, while a wrong formula stays far above.
    """
    from tests.numerics import default_dtype

    with default_dtype("float64"):
        yield


def _checked_handle(handle):
    """Raise OSError, as fsync does, if a file is not open."""
    os.fstat(handle)


@pytest.fixture(scope="session", autouse=True)
def no_fsync():
    """Write without waiting for the disk: only a power failure shows what fsync does.

    A tokenizer or checkpoint that is saved calls it up to ten times, some milliseconds each.
    Processes that a test starts call the real one.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", _checked_handle)
        yield


@pytest.fixture
def fsync(monkeypatch):
    """Call the real fsync in this test."""
    monkeypatch.setattr(os, "fsync", _FSYNC)
