"""Executors yield results in order, limit memory use and report dead workers."""

import os
import signal
import sys
import time

import pytest

from cs336_basics._support.errors import RunError
from cs336_basics.execution.executors import EXECUTORS, executor
from cs336_basics.execution.workers import resolve_num_workers
from tests.errors import rejects
from tests.processes import run_python

LOCAL = [name for name in EXECUTORS if name != "ray"]
# A cluster takes seconds to start. The tests of counting and encoding run jobs on one, too.
every_executor = pytest.mark.parametrize(
    "name", [*LOCAL, pytest.param("ray", marks=pytest.mark.slow)]
)


class Squares:
    """Squares numbers, some of them slowly. Its results are lists, joined in order."""

    def run(self, x):
        time.sleep(0.02 * (x % 3))
        if x < 0:
            raise ValueError(f"{x} is negative")
        return [x * x]

    def combine(self, partials):
        return [square for partial in partials for square in partial]


class Killed:
    def run(self, x):
        if x == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return x


def test_num_workers_defaults_to_all_cores():
    assert resolve_num_workers(None) == len(os.sched_getaffinity(0))
    assert resolve_num_workers(3) == 3


def test_unknown_executors_and_invalid_numbers_of_workers_are_rejected():
    with rejects("execution", "'fork'"):
        executor("fork")
    for name in ("threads", "processes", "ray"):
        with rejects("num_workers"):
            executor(name, 0)


@every_executor
@pytest.mark.parametrize("num_pieces", [0, 1, 2, 75])
def test_results_are_in_the_order_of_the_pieces(name, num_pieces, request):
    if name == "ray":
        request.getfixturevalue("local_ray")
    done = []
    results = executor(name, 2).map_ordered(Squares(), iter(range(num_pieces)), done.append)
    assert list(results) == [[x * x] for x in range(num_pieces)]
    assert sorted(done) == list(range(num_pieces))


@every_executor
@pytest.mark.parametrize("num_pieces", [0, 1, 7, 8, 75])
def test_results_are_combined_in_the_order_of_the_pieces(name, num_pieces, request):
    if name == "ray":
        request.getfixturevalue("local_ray")
    done = []
    total = executor(name, 2).reduce(Squares(), range(num_pieces), done.append)
    assert total == [x * x for x in range(num_pieces)]
    assert sorted(done) == list(range(num_pieces))


@every_executor
def test_errors_of_a_job_reach_the_caller(name, request):
    if name == "ray":
        request.getfixturevalue("local_ray")
    with pytest.raises(ValueError, match="-3 is negative"):
        executor(name, 2).reduce(Squares(), [1, -3, *range(20)])


@pytest.mark.parametrize("name", LOCAL)
def test_pieces_are_read_only_a_little_ahead(name):
    taken = []

    def pieces():
        for x in range(100):
            taken.append(x)
            yield x

    results = executor(name, 2).map_ordered(Squares(), pieces())
    assert next(results) == [0]
    assert len(taken) < 10
    results.close()


def test_a_single_piece_needs_no_worker_process():
    results = executor("processes", 8).map_ordered(ProcessId(), [None])
    assert list(results) == [os.getpid()]


class ProcessId:
    def run(self, piece):
        return os.getpid()


def test_a_worker_that_dies_raises_instead_of_hanging():
    with rejects(None, 2, kind=RunError):
        list(executor("processes", 2).map_ordered(Killed(), range(50)))


KILLED_PARENT = """
import os, sys
from cs336_basics.execution.executors import executor
from tests.execution.test_executors import ProcessId
next(executor("processes", 2).map_ordered(ProcessId(), range(100)))
os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_workers_end_when_their_parent_is_killed():
    # The workers share the parent's standard output, so this call returns only when they end.
    assert run_python(KILLED_PARENT, check=False).returncode == -signal.SIGKILL
