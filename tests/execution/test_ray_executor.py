"""Results are combined in order. If a cluster cannot finish its tasks, an error is raised soon.

tests/counting/test_partial_counts.py and tests/tokenizer/files/test_ray_encoding.py
run tasks on real clusters.
"""

import contextlib
import itertools
import random
import threading
import time

import pytest

from cs336_basics._support.errors import RunError
from cs336_basics.execution import ray_executor
from cs336_basics.execution.ray_executor import RayExecutor, run_tasks
from tests.errors import rejects


class FakeRay:
    """A replacement for Ray whose tasks end, one at a time, after `waits` calls to `wait`."""

    def __init__(self, cpus, waits=3):
        self.cpus = iter(cpus)
        self.waits = waits
        self.running = []
        self.most = 0

    def cluster_resources(self):
        cpus = next(self.cpus)
        if cpus is None:
            threading.Event().wait()  # no answer
        return {"CPU": cpus} if cpus else {}

    def wait(self, tasks, timeout):
        self.most = max(self.most, len(tasks))
        self.waits -= 1
        time.sleep(0.05)
        return (tasks[:1], tasks[1:]) if self.waits < 0 else ([], tasks)

    def get(self, task):
        return task * 10


@pytest.fixture(autouse=True)
def short_silence(monkeypatch):
    monkeypatch.setattr(ray_executor, "LONGEST_SILENCE", 0.2)
    monkeypatch.setattr(ray_executor, "_POLL", 0.05)


def cpus(*first):
    yield from first
    while True:
        yield first[-1]


def run(ray, num_workers=None, items=range(5)):
    return dict(run_tasks(ray, items, lambda item: (item, str(item)), num_workers))


def test_every_item_is_yielded_with_its_result():
    assert run(FakeRay(cpus(2))) == {str(n): n * 10 for n in range(5)}
    assert run(FakeRay(cpus(2)), items=()) == {}


def test_a_head_node_that_does_not_answer_is_an_error():
    with rejects(None, "head node", kind=RunError):
        run(FakeRay(cpus(2, 2, None), waits=1000))


def test_the_head_node_is_watched_while_tasks_keep_ending():
    with rejects(None, "head node", kind=RunError):
        run(FakeRay(cpus(2, 2, None), waits=0), items=range(100))


def test_a_cluster_that_lost_all_its_cpus_is_an_error():
    with rejects(None, "CPU", kind=RunError):
        run(FakeRay(cpus(2, 2, 0), waits=1000))


def test_a_machine_that_is_replaced_in_time_is_no_error():
    assert len(run(FakeRay(cpus(2, 2, 0, 2), waits=8))) == 5


def test_a_cluster_may_start_without_cpus():
    assert len(run(FakeRay(cpus(0, 0, 0, 0, 0, 0, 0, 0, 2), waits=12))) == 5


class FakeTasks:
    """A replacement for the tasks of a job, whose results are lists of pieces.

    Args:
        order: Indices of the pieces, in the order their tasks end.
    """

    def __init__(self, order):
        self.order = order

    def run(self, pieces, _num_workers, _done):
        return ((number, [pieces[number]]) for number in self.order)

    def combine(self, *results):
        return list(itertools.chain(*results))

    def fetch(self, result):
        return result


@pytest.mark.parametrize("seed", range(5))
def test_results_are_combined_in_the_order_of_the_pieces(monkeypatch, seed):
    order = random.Random(seed).sample(range(75), 75)
    monkeypatch.setattr(ray_executor, "_Tasks", lambda _ray, _job: FakeTasks(order))
    monkeypatch.setattr(ray_executor, "ray_cluster", lambda _: contextlib.nullcontext())
    assert RayExecutor().reduce(None, range(75)) == list(range(75))
