"""Options and fixtures of the benchmarks: `pytest benchmarks --benchmark-only`."""

import pytest

from benchmarks import machine
from benchmarks.corpora import common_corpora, find_corpora
from benchmarks.report import pages
from cs336_basics import TRAINERS
from cs336_basics.bpe import is_built


def pytest_addoption(parser):
    group = parser.getgroup("cs336_basics benchmarks")
    group.addoption(
        "--corpus-bytes",
        type=int,
        default=12_000_000,
        help="use at most this many bytes of each corpus, 0 = all (default: %(default)s)",
    )
    group.addoption(
        "--max-seconds",
        type=float,
        default=10.0,
        help="stop slower trainers after this many seconds and extrapolate (default: %(default)s)",
    )


def pytest_configure(config):
    if not all(map(is_built, TRAINERS.values())):
        raise pytest.UsageError("extensions are not built; run python setup.py build_ext --inplace")


def pytest_generate_tests(metafunc):
    if "corpus" in metafunc.fixturenames:
        corpora = find_corpora(metafunc.config.getoption("--corpus-bytes"))
        metafunc.parametrize("corpus", corpora, ids=str)
    if "common_corpus" in metafunc.fixturenames:
        metafunc.parametrize("common_corpus", common_corpora(), ids=str)


def pytest_terminal_summary(terminalreporter, config):
    done = [found for found in config._benchmarksession.benchmarks if not found.has_error]
    for line in pages.sections(pages.rows_of(found.extra_info for found in done)):
        if not line.startswith("!["):  # a plot
            terminalreporter.write_line(line)


def pytest_benchmark_update_machine_info(config, machine_info):
    machine_info.update(machine.machine_info())


def pytest_report_header(config):
    return "benchmark machine: " + ", ".join(f"{k} {v}" for k, v in machine.machine_info().items())
