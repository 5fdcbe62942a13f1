"""`map_ordered` yields results in order, limits memory use and reports dead workers."""

import os
import signal
import time

import pytest

from cs336_basics.execution.parallel import map_ordered, resolve_num_workers


def test_num_workers_defaults_to_all_cores():
    assert resolve_num_workers(None) == len(os.sched_getaffinity(0))
    assert resolve_num_workers(3) == 3


def _slow_square(x):
    time.sleep(0.02 * (x % 3))
    return x * x


def _die(x):
    if x == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def test_map_ordered_keeps_the_order():
    assert list(map_ordered(_slow_square, ((x,) for x in range(12)), 2)) == [
        x * x for x in range(12)
    ]


def test_map_ordered_reads_only_a_little_ahead():
    taken = []

    def arguments():
        for x in range(100):
            taken.append(x)
            yield (x,)

    results = map_ordered(_slow_square, arguments(), 2)
    assert next(results) == 0
    assert len(taken) < 10
    results.close()


def test_a_worker_that_dies_raises_instead_of_hanging():
    with pytest.raises(RuntimeError, match="one of 2 worker processes was killed"):
        list(map_ordered(_die, ((x,) for x in range(50)), 2))
