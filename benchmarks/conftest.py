"""Options and fixtures of the benchmarks: `pytest benchmarks --benchmark-only`."""

import pytest

from benchmarks import BUILD_FIRST, IS_BUILT, machine
from benchmarks.corpora import common_corpora, find_corpora

DEFAULT_BYTES = 12_000_000
DEFAULT_SECONDS = 10.0


def pytest_addoption(parser):
    group = parser.getgroup("cs336_basics benchmarks")
    group.addoption(
        "--corpus-bytes",
        type=int,
        default=DEFAULT_BYTES,
        help="use at most this many bytes of each corpus, 0 = all (default: %(default)s)",
    )
    group.addoption(
        "--max-seconds",
        type=float,
        default=DEFAULT_SECONDS,
        help="a trainer that needs longer is measured for this long, and its time extrapolated "
        "(default: %(default)s)",
    )


def pytest_configure(config):
    if not IS_BUILT:
        raise pytest.UsageError(BUILD_FIRST)
    config.corpora = None


def pytest_generate_tests(metafunc):
    if "corpus" in metafunc.fixturenames:
        config = metafunc.config
        if config.corpora is None:
            config.corpora = find_corpora(config.getoption("--corpus-bytes"))
        metafunc.parametrize("corpus", config.corpora, ids=str)
    if "common_corpus" in metafunc.fixturenames:
        metafunc.parametrize("common_corpus", common_corpora(), ids=str)


def pytest_benchmark_update_machine_info(config, machine_info):
    machine_info.update(machine.machine_info())


def pytest_report_header(config):
    return "benchmark machine: " + ", ".join(f"{k} {v}" for k, v in machine.machine_info().items())


@pytest.fixture
def max_seconds(request):
    return request.config.getoption("--max-seconds")
