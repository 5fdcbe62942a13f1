"""Options and fixtures of the benchmarks: `pytest benchmarks --benchmark-only`."""

from pathlib import Path

import pytest

from benchmarks import machine
from benchmarks.corpora import find_corpora
from benchmarks.report import pages, terminal
from cs336_basics import TRAINERS

LEGEND = """\
Time: median of the rounds. Training is from the file to the vocabulary, with words counted
natively; merging is from counted words. Shares of the time: reading and counting words (read),
setting up words (set up), counting pairs (count), finding the maximum (find), updating (update),
building the vocabulary (build). ≈: extrapolated from the first --max-seconds of a run, often too
short, by up to half (docs/benchmarks.md, Growth).
--benchmark-verbose shows pytest-benchmark's own table."""


def pytest_addoption(parser):
    group = parser.getgroup("cs336_basics benchmarks")
    group.addoption(
        "--corpus-bytes",
        type=int,
        default=12_000_000,
        help="use at most this many bytes of each corpus, 0 = all (default: %(default)s)",
    )
    group.addoption(
        "--corpus",
        type=Path,
        metavar="FILE",
        help="measure this text instead of TinyStories and OpenWebText; its documents end with "
        "<|endoftext|>",
    )
    group.addoption(
        "--max-seconds",
        type=float,
        default=10.0,
        help="stop slower trainers after this many seconds and extrapolate (default: %(default)s)",
    )


def pytest_configure(config):
    if not TRAINERS["native"].is_built:
        raise pytest.UsageError("the benchmarks need extensions; run `make build`")
    path = config.getoption("--corpus")
    if path is not None and not path.is_file():
        raise pytest.UsageError(f"--corpus must be a file, got {str(path)!r}")
    options = config.option
    wants_table = (
        options.benchmark_verbose or options.benchmark_compare or options.benchmark_histogram
    )
    if not wants_table:  # pytest_terminal_summary prints the tables of the stages
        options.benchmark_quiet = True


def pytest_generate_tests(metafunc):
    config = metafunc.config
    path = config.getoption("--corpus")
    if "corpus" in metafunc.fixturenames:
        corpora = find_corpora(config.getoption("--corpus-bytes"), path)
        metafunc.parametrize("corpus", corpora, ids=str)
    if "common_corpus" in metafunc.fixturenames:
        metafunc.parametrize("common_corpus", find_corpora(None, path), ids=str)


def pytest_terminal_summary(terminalreporter, config):
    done = [b for b in config._benchmarksession.benchmarks if not b.has_error]
    lines = terminal.lines_of(pages.rows_of(benchmark.extra_info for benchmark in done))
    if lines:
        for line in [*lines, "", LEGEND]:
            terminalreporter.write_line(line)


def pytest_report_header(config):
    return "benchmark machine: " + machine.machine_line()
